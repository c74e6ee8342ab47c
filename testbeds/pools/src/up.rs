//! The service behind: a thread a connection, each reply after a time of its own, so that replies overtake each other.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Longest time until a reply, in microseconds.
const DELAY_US: u64 = 5_000;

/// Serves for ever.
///
/// # Errors
/// The port is taken, or no more threads can be had.
pub fn serve(port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("ready {}", listener.local_addr()?.port());
    for (number, stream) in (1..).zip(listener.incoming()) {
        let stream = stream?;
        // a client that goes away in the middle is no business of the server's
        std::thread::Builder::new().spawn(move || drop(answer(stream, number)))?;
    }
    Ok(())
}

fn answer(mut stream: TcpStream, mut random: u64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    loop {
        // a request's head, which an empty line ends; none has a body
        let mut is_empty = true;
        loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
            is_empty = false;
        }
        if is_empty {
            continue;
        }
        // Marsaglia, "Xorshift RNGs" (2003), section 3
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % DELAY_US));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nup\n")?;
    }
}
