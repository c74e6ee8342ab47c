//! Rows that sniffers send on, and the collector that takes them.

use super::*;

/// A collector, and where it listens.
pub fn collector(dir: &Path, args: &[&str]) -> (Running, SocketAddr) {
    let ready = dir.join(format!("ready-{}", std::fs::read_dir(dir).map_or(0, Iterator::count)));
    let args = [&["collect", "--listen", "127.0.0.1:0"], args].concat();
    let running = Running::start(&args, &ready, Stdio::null()).expect("it needs no rights");
    let address = std::fs::read_to_string(ready).expect("it is there").trim().parse().expect("an address");
    (running, address)
}

/// What a collector answers once all senders have ended: what they sent stands in its sockets.
pub fn collected(running: Running) -> serde_json::Value {
    let output = running.interrupt();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    check("collect", &stdout(&output))
}

/// Sends a file's rows on and gives the sniffer's answer.
pub fn forward(file: &Path, to: SocketAddr, more: &[&str]) -> serde_json::Value {
    let output = run(&[&["sniff", "--pcap", path(file), "--forward", &to.to_string(), "--json"], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    check("sniff", &stdout(&output))
}

#[test]
fn rows_that_are_sent_on_are_the_same_rows() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, here) = (shop_file(dir.path()), dir.path().join("here"));
    sniff_file(&file, &here);
    for by in ["udp", "tcp"] {
        let there = dir.path().join(by);
        let (running, address) = collector(dir.path(), &["-o", path(&there), "--json"]);
        let sent = forward(&file, address, &["--forward-by", by]);
        assert_eq!(sent["forwarded"]["rows_lost"], 0, "{sent}");
        let got = collected(running);
        let sender = &got["senders"][0];
        assert_eq!(sender["rows"], sent["forwarded"]["rows"], "{by}: {got}");
        assert_eq!(
            (&sender["by"], &sender["rows_lost"], &sender["is_over"]),
            (&by.into(), &0.into(), &true.into()),
            "{got}"
        );
        assert_eq!(got["losses"], serde_json::json!([]));
        assert_eq!(rows(&there), rows(&here), "{by}");
        let folder = Folder::open(&[&there])?;
        let info = folder.hosts()[0].info();
        assert_eq!((info.hostname.as_str(), info.clock.as_str()), ("shop", "wall clock of the capture"));
    }
    Ok(())
}

#[test]
fn datagrams_that_get_lost_are_counted_and_the_others_are_right() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, here, there) = (shop_file(dir.path()), dir.path().join("here"), dir.path().join("there"));
    sniff_file(&file, &here);
    let (running, address) = collector(dir.path(), &["-o", path(&there), "--json"]);
    // every fourth does not pass, every fifth passes twice, every seventh after the next
    let relay = UdpRelay::start(address);
    let sent = forward(&file, relay.address(), &[]);
    relay.finish();
    let got = collected(running);
    let sender = &got["senders"][0];
    let (rows_sent, rows_got, rows_lost) =
        (sent["forwarded"]["rows"].as_u64(), sender["rows"].as_u64(), sender["rows_lost"].as_u64());
    assert!(rows_lost > Some(0) && sender["frames_again"].as_u64() > Some(0), "{got}");
    assert_eq!(rows_got.zip(rows_lost).map(|(a, b)| a + b), rows_sent, "{got}");
    assert_eq!(losses(&there).get(defect::FORWARD_LOST).copied(), rows_lost);
    let all: BTreeSet<String> = rows(&here).into_iter().collect();
    let some = rows(&there);
    assert!(!some.is_empty() && some.iter().all(|r| all.contains(r)), "a row is there that was never sent");
    assert_eq!(some.iter().collect::<BTreeSet<_>>().len(), some.len(), "no row is there twice");
    Ok(())
}

#[test]
fn a_broken_connection_is_resumed_and_nothing_is_lost() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, here, there) = (shop_file(dir.path()), dir.path().join("here"), dir.path().join("there"));
    sniff_file(&file, &here);
    let (running, address) = collector(dir.path(), &["-o", path(&there), "--json"]);
    // each of the first three connections breaks after some bytes, in the middle of a frame
    let relay = TcpRelay::start(address, vec![5_000, 9_001, 3_003]);
    let sent = forward(&file, relay.address(), &["--forward-by", "tcp"]);
    assert_eq!((&sent["forwarded"]["rows_lost"], &sent["forwarded"]["resumed"]), (&0.into(), &3.into()), "{sent}");
    let got = collected(running);
    assert_eq!(got["senders"][0]["rows_lost"], 0, "{got}");
    assert_eq!(rows(&there), rows(&here));
    assert!(losses(&there).is_empty());
    Ok(())
}

/// An address at which nobody listens, and that only a listener can take while the socket lives.
fn reserved() -> (std::os::fd::OwnedFd, SocketAddr) {
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    // SAFETY: plain socket calls with structures of the stated sizes; the descriptor is ours alone.
    unsafe {
        let fd =
            std::os::fd::OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0));
        let mut at: libc::sockaddr_in = std::mem::zeroed();
        let (mut size, one) = (size_of_val(&at) as u32, 1i32);
        at.sin_family = libc::AF_INET as u16;
        at.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        // a listener with this option too may have the same port
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, (&raw const one).cast(), 4);
        assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const at).cast(), size), 0);
        assert_eq!(libc::getsockname(fd.as_raw_fd(), (&raw mut at).cast(), &mut size), 0);
        (fd, SocketAddr::from(([127, 0, 0, 1], u16::from_be(at.sin_port))))
    }
}

/// Waits until it has said that nobody listens where it sends to.
fn in_vain(sniffer: &mut Running) -> Tested {
    let errors = sniffer.0.stderr.as_mut().ok_or("a pipe")?;
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.contains("no connection to the collector") {
        errors.read_exact(&mut byte).map_err(|e| format!("{e}: {text}"))?;
        text.push(byte[0].into());
    }
    Ok(())
}

/// Names of a process's threads.
fn threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|t| Some(std::fs::read_to_string(t.path().join("comm")).ok()?.trim().to_owned())).collect()
}

#[test]
fn a_collector_that_comes_late_or_again_gets_what_was_kept() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, here, there) = (shop_file(dir.path()), dir.path().join("here"), dir.path().join("there"));
    sniff_file(&file, &here);
    let (_kept, address) = reserved();
    let args = ["sniff", "--pcap", path(&file), "--forward", &address.to_string(), "--forward-by", "tcp", "--json"];
    let mut command = wakepath(&args);
    let mut sniffer = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    in_vain(&mut sniffer)?;
    let ready = dir.path().join("ready");
    let listen = address.to_string();
    let args = ["collect", "--listen", &listen, "-o", path(&there), "--json"];
    let running = Running::start(&args, &ready, Stdio::null())?;
    let output = sniffer.ended();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(check("sniff", &stdout(&output))["forwarded"]["rows_lost"], 0);
    assert_eq!(collected(running)["senders"][0]["rows_lost"], 0);
    assert_eq!(rows(&there), rows(&here));
    Ok(())
}

#[test]
fn several_senders_are_several_hosts_and_nonsense_is_counted() -> Tested {
    let dir = tempfile::tempdir()?;
    let there = dir.path().join("there");
    let (running, address) = collector(dir.path(), &["-o", path(&there), "--json"]);
    let nonsense = UdpSocket::bind("127.0.0.1:0")?;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"", b"Wf\x01\x01garbage that is long enough", &[0xff; 1400]] {
        nonsense.send_to(bytes, address)?;
    }
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(&[0xff; 5000])?;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "the connection is closed without an answer");
    for (name, by) in [("web", "udp"), ("db", "tcp")] {
        let file = dir.path().join(format!("{name}.pcap"));
        std::fs::write(&file, shop(2, 10).bytes())?;
        forward(&file, address, &["--forward-by", by]);
    }
    let got = collected(running);
    assert_eq!(got["frames_bad"], 5, "{got}");
    let mut hosts: Vec<_> = got["senders"].as_array().ok_or("senders")?.iter().map(|s| s["host"].clone()).collect();
    hosts.sort_by_key(ToString::to_string);
    assert_eq!(hosts, ["db", "web"]);
    assert_eq!(Folder::open(&[&there])?.hosts().len(), 2);
    assert_eq!(answered(&there, 80).len(), 40);
    let again = run(&["collect", "--listen", "127.0.0.1:0", "-o", path(&there)]);
    assert!(again.status.code() == Some(1) && stderr(&again).contains("--append"), "{}", stderr(&again));
    Ok(())
}

#[test]
fn a_collector_tells_prometheus_of_all_its_sniffers() -> Tested {
    let dir = tempfile::tempdir()?;
    let (mut running, address) = collector(dir.path(), &["--metrics", "127.0.0.1:0", "--json"]);
    let mut errors = running.0.stderr.take().ok_or("a pipe")?;
    let figures = metrics_address(&mut errors)?;
    forward(&shop_file(dir.path()), address, &["--forward-by", "tcp"]);
    // a scrape may come between two frames
    assert_eq!(wait_for(|| if requests_told(figures) == ALL { ALL } else { 0 }), ALL, "{}", scrape(figures));
    assert_eq!(collected(running)["senders"][0]["rows_lost"], 0);
    Ok(())
}

#[test]
fn what_finds_no_room_at_the_sender_is_counted_at_both_ends() -> Tested {
    let dir = tempfile::tempdir()?;
    let there = dir.path().join("there");
    let bytes = shop(12, 40).bytes().to_vec();
    // nobody is there yet, and there is room for one frame alone
    let (_kept, address) = reserved();
    let address = address.to_string();
    let args =
        ["sniff", "--pcap", "-", "--forward", &address, "--forward-by", "tcp", "--forward-buffer", "9K", "--json"];
    let mut command = wakepath(&args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("a pipe")?;
    let mut sniffer = Running(child);
    // it looks at the first bytes before it begins
    input.write_all(&bytes[..1000])?;
    in_vain(&mut sniffer)?;
    let pid = sniffer.0.id();
    let captures = || threads(pid).iter().filter(|t| *t == "capture").count();
    assert!(wait_for(captures) > 0);
    input.write_all(&bytes[1000..])?;
    drop(input);
    // all is read, and what there is no room for is soon known
    assert!(wait_for(|| 1 - captures()) > 0);
    std::thread::sleep(Duration::from_millis(500));
    let listen = ["collect", "--listen", &address, "-o", path(&there), "--json"];
    let running = Running::start(&listen, &dir.path().join("ready"), Stdio::null())?;
    let output = sniffer.ended();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let sent = check("sniff", &stdout(&output));
    let got = collected(running);
    let lost = sent["forwarded"]["rows_lost"].as_u64();
    assert!(lost > Some(0), "{sent}");
    assert_eq!(got["senders"][0]["rows_lost"].as_u64(), lost, "{got}");
    assert_eq!(losses(&there).get(defect::FORWARD_ROOM).copied(), lost);
    Ok(())
}

#[test]
fn nobody_waits_for_ever_for_a_collector_that_does_not_come() -> Tested {
    let dir = tempfile::tempdir()?;
    let file = shop_file(dir.path());
    let (_kept, address) = reserved();
    let address = address.to_string();
    let ready = dir.path().join("ready");
    let args = ["sniff", "--pcap", path(&file), "--forward", &address, "--forward-by", "tcp", "--json"];
    let running = Running::start(&args, &ready, Stdio::null())?;
    std::thread::sleep(Duration::from_millis(500));
    // a signal ends the waiting
    let output = running.interrupt();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let sent = check("sniff", &stdout(&output));
    assert_eq!(sent["forwarded"]["rows_lost"], sent["forwarded"]["rows"], "{sent}");
    Ok(())
}
