//! Both programs together: the truth that they write down must fit, in every mode.

use serde_json::Value;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

type Tested = Result<(), Box<dyn Error>>;

const REQUESTS: usize = 3;
const COMPUTE_US: u64 = 20_000;

/// Ends the server with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lines(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    Ok(std::fs::read_to_string(path)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn ns(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Runs one combination; gives the calls as (client's line, server's line).
fn calls(server_flags: &[&str], client_flags: &[&str]) -> Result<Vec<(Value, Value)>, Box<dyn Error>> {
    calls_of(COMPUTE_US, server_flags, client_flags)
}

/// The same, with calls that take so long.
fn calls_of(
    compute_us: u64,
    server_flags: &[&str],
    client_flags: &[&str],
) -> Result<Vec<(Value, Value)>, Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let (ours, theirs) = (place.path().join("client"), place.path().join("server"));
    let mut line = Command::new(env!("CARGO_BIN_EXE_rpc-server"));
    line.args(server_flags).arg("--truth").arg(&theirs).stdout(Stdio::piped());
    let mut server = Server(line.spawn()?);
    let mut first = String::new();
    BufReader::new(server.0.stdout.take().ok_or("no output")?).read_line(&mut first)?;
    let address = first.split(' ').nth(1).ok_or("no address")?;
    let mut line = Command::new(env!("CARGO_BIN_EXE_rpc-client"));
    line.args([address, "--requests", &REQUESTS.to_string(), "--compute-us", &compute_us.to_string()]);
    let status = line.args(client_flags).arg("--truth").arg(&ours).status()?;
    assert!(status.success(), "{server_flags:?} {client_flags:?}: {status}");
    // the server writes its last line after the reply has left
    for _ in 0..12_000 {
        if lines(&theirs)?.len() == REQUESTS {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pairs: Vec<_> = lines(&ours)?.into_iter().zip(lines(&theirs)?).collect();
    assert_eq!(pairs.len(), REQUESTS, "{server_flags:?} {client_flags:?}");
    Ok(pairs)
}

#[test]
fn times_are_in_order_in_every_mode() -> Tested {
    for server in [&["--model", "thread"][..], &["--model", "event-loop"]] {
        for udp in [&[][..], &["--udp"]] {
            for client in [&[][..], &["--async", "50"], &["--async", "100"], &["--event-loop"]] {
                let mode = format!("{server:?} {udp:?} {client:?}");
                for (c, s) in calls(&[server, udp].concat(), &[client, udp].concat())? {
                    assert_eq!(c["id"], s["id"], "{mode}");
                    assert_eq!(s["peer"].as_str().map(port), c["local"].as_str().map(port), "{mode}");
                    let order = [
                        ns(&c, "send_ns"),
                        ns(&s, "received_ns"),
                        ns(&s, "compute_begin_ns"),
                        ns(&s, "compute_end_ns"),
                        ns(&s, "send_ns"),
                        ns(&c, "received_ns"),
                    ];
                    assert!(order.is_sorted(), "{mode}: {order:?}");
                    assert!(order[3] - order[2] >= COMPUTE_US * 1000, "{mode}");
                }
            }
        }
    }
    Ok(())
}

fn port(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

#[test]
fn an_asynchronous_client_computes_before_it_reads() -> Tested {
    for (percent, own_us) in [("0", 0), ("50", COMPUTE_US / 2), ("100", COMPUTE_US)] {
        for (c, _) in calls(&[], &["--async", percent])? {
            let own = ns(&c, "compute_end_ns") - ns(&c, "compute_begin_ns");
            assert!(own >= own_us * 1000 && (own_us > 0 || own == 0), "{percent} %: {own} ns");
            assert!(ns(&c, "read_ns") >= ns(&c, "compute_end_ns"), "{percent} %");
        }
    }
    Ok(())
}

#[test]
fn an_event_loop_counts_its_time_outs() -> Tested {
    // longer than one turn of 16 ms, so that at least one time-out comes first, also where the loop begins late
    for (c, _) in calls_of(500_000, &[], &["--event-loop"])? {
        assert!(ns(&c, "timeouts") >= 1, "{c}");
    }
    Ok(())
}
