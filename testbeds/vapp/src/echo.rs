//! The paper's worst case: a server that echoes single bytes, and a client whose threads ask in a busy loop.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::net;
use crate::run::Owned;

/// Options of the echo server.
#[derive(Args, Debug)]
pub struct EchoServerArgs {
    /// Port on 127.0.0.1; 0 picks one. The first line printed is `ready PORT PID`
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// End when this parent process ends
    #[arg(long, hide = true)]
    parent_pid: Option<u32>,
}

/// Options of the echo client.
#[derive(Args, Debug)]
pub struct EchoClientArgs {
    /// Client threads, each with a connection
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=4096))]
    threads: u64,
    /// How long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Port of a running echo server; without it one is started for the time
    #[arg(long)]
    port: Option<u16>,
    /// Process of a running echo server, for its processor time
    #[arg(long, requires = "port")]
    server_pid: Option<i32>,
}

/// Echoes until killed.
pub fn serve(args: &EchoServerArgs) -> io::Result<()> {
    if let Some(parent) = args.parent_pid {
        net::die_with(parent);
    }
    net::set_comm("vapp-echo");
    let listener = net::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, args.port))?;
    println!("ready {} {}", listener.local_addr()?.port(), std::process::id());
    io::stdout().flush()?;
    loop {
        let mut stream = net::accept(&listener);
        stream.set_nodelay(true)?;
        std::thread::spawn(move || {
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        });
    }
}

/// Processor seconds that a process has used, all threads, ended ones too.
fn cpu_seconds(pid: i32) -> io::Result<f64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are valid for writing.
    let failed =
        unsafe { libc::clock_getcpuclockid(pid, &mut clock) != 0 || libc::clock_gettime(clock, &mut time) != 0 };
    if failed {
        return Err(io::Error::other(format!("no processor time of process {pid}")));
    }
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

fn ask(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    let (mut trips, mut byte) = (0, [0]);
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(b"e")?;
        stream.read_exact(&mut byte)?;
        trips += 1;
    }
    Ok(trips)
}

/// Measures and prints one JSON line.
pub fn measure(args: &EchoClientArgs) -> io::Result<()> {
    net::set_comm("vapp-echo-cl");
    let mut own_server = None;
    let (port, pid) = match args.port {
        Some(port) => (port, args.server_pid),
        None => {
            let server = own_server.insert(Owned::spawn(&["echo-server".to_owned()])?);
            let line = server.first_line()?;
            let port = line.split(' ').nth(1).and_then(|port| port.parse().ok());
            let port = port.ok_or_else(|| io::Error::other("the echo server did not start"))?;
            (port, Some(server.0.id() as i32))
        }
    };
    let mut streams = Vec::new();
    for _ in 0..args.threads {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let cpu_before = pid.map(cpu_seconds).transpose()?;
    let start = net::now_ns();
    let stop = AtomicBool::new(false);
    let trips = std::thread::scope(|scope| {
        let threads: Vec<_> = streams.into_iter().map(|stream| scope.spawn(|| ask(stream, &stop))).collect();
        std::thread::sleep(Duration::from_secs_f64(args.seconds));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<io::Result<u64>>()
    })?;
    let seconds = (net::now_ns() - start) as f64 / 1e9;
    let cpu = match (pid, cpu_before) {
        (Some(pid), Some(before)) => Some(cpu_seconds(pid)? - before),
        _ => None,
    };
    let line = json!({
        "threads": args.threads,
        "seconds": seconds,
        "round_trips": trips,
        "round_trips_per_s": trips as f64 / seconds,
        "server_cpu_seconds": cpu,
        "server_cpu_us_per_round_trip": cpu.map(|cpu| cpu * 1e6 / trips as f64),
    });
    println!("{line}");
    Ok(())
}
