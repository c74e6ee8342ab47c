//! Senders that are none, or too many, or send too much: what a collector makes of them.

use super::{collected, collector, forward, path, rows, shop_file, sniff_file};
use crate::support::{Tested, check, stderr, stdout};
use std::time::Duration;
use wakepath_model::folder::{Folder, HostInfo};
use wakepath_model::forward::Encoder;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{AnchorRow, Event, Table};

/// What a sniffer would send for a session: its hello, and one frame of rows where these are asked for.
fn frames_of(session: u64, has_rows: bool) -> Vec<Vec<u8>> {
    let host = HostInfo { hostname: format!("forged-{session}"), boot_id: format!("{session}"), ..HostInfo::default() };
    let mut encoder = Encoder::new(session, 1400);
    let mut frames = vec![encoder.hello(&host, false).to_vec()];
    if has_rows {
        let row =
            AnchorRow { at: MonoNs(1_000_000), real_ns: 1_700_000_000_000_000_000, error_ns: 70, ..Default::default() };
        encoder.push(&Event::Anchor(row), &|_| b"", &mut |f| frames.push(f.to_vec()));
        encoder.flush(&mut |f| frames.push(f.to_vec()));
    }
    frames
}

#[test]
fn forged_senders_lock_out_no_other() -> Tested {
    let dir = tempfile::tempdir()?;
    let (file, here, there) = (shop_file(dir.path()), dir.path().join("here"), dir.path().join("there"));
    sniff_file(&file, &here);
    let (running, address) = collector(dir.path(), &["-o", path(&there), "--json"]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    // hellos alone, more than senders are taken; rows that nobody owns up to; the same hello again, which is old
    for session in 1..=600 {
        for frame in frames_of(session, session % 3 == 0).iter().skip(usize::from(session % 3 == 0)) {
            socket.send_to(frame, address)?;
        }
    }
    let sent = forward(&file, address, &["--forward-by", "tcp"]);
    assert_eq!(sent["forwarded"]["rows_lost"], 0, "{sent}");
    let output = running.interrupt();
    let got = check("collect", &stdout(&output));
    let real = got["senders"].as_array().and_then(|all| all.iter().find(|s| s["host"] == "shop"));
    assert_eq!(real.map(|s| &s["rows"]), Some(&sent["forwarded"]["rows"]), "{got}");
    assert_eq!(rows(&there), rows(&here));
    // who only said hello has no place in the folder
    assert_eq!(Folder::open(&[&there])?.hosts().len(), 1);
    assert!(got["frames_refused"].as_u64() > Some(100), "{got}");
    let refused = got["losses"].as_array().and_then(|all| all.iter().find(|l| l["id"] == "forward.refused"));
    assert_eq!(refused.map(|l| &l["count"]), Some(&got["frames_refused"]), "{got}");
    Ok(())
}

#[test]
fn refused_frames_are_in_text_and_exit_code_and_one_address_has_its_share() -> Tested {
    let dir = tempfile::tempdir()?;
    let there = dir.path().join("there");
    let (running, address) = collector(dir.path(), &["-o", path(&there), "--strict"]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    // each of them sends a row: they are senders, and one address may be so many
    for session in 1..=100 {
        for frame in frames_of(session, true) {
            socket.send_to(&frame, address)?;
        }
    }
    let output = running.interrupt();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("REFUSED: 72 frames") && said.contains("forward.refused"), "{said}");
    assert_eq!(Folder::open(&[&there])?.hosts().len(), 64);
    Ok(())
}

#[test]
fn what_all_senders_write_is_bounded_and_the_largest_gives() -> Tested {
    let dir = tempfile::tempdir()?;
    let there = dir.path().join("there");
    let (running, address) = collector(dir.path(), &["-o", path(&there), "--max-bytes", "400K", "--json"]);
    let mut stream = std::net::TcpStream::connect(address)?;
    let host = |name: &str| HostInfo { hostname: name.into(), boot_id: name.into(), ..HostInfo::default() };
    for (session, name, count) in [(1, "small", 10u64), (2, "large", 150_000)] {
        let mut encoder = Encoder::new(session, 1400);
        let mut send = |frame: &[u8]| {
            let bytes = [&(frame.len() as u32).to_le_bytes(), frame].concat();
            std::io::Write::write_all(&mut stream, &bytes).expect("it takes them");
        };
        send(encoder.hello(&host(name), false));
        for i in 0..count {
            // numbers that do not become smaller
            let real_ns = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let row = AnchorRow { at: MonoNs(i), real_ns, error_ns: real_ns.rotate_left(17), ..Default::default() };
            encoder.push(&Event::Anchor(row), &|_| b"", &mut send);
            if i % 5000 == 4999 {
                std::thread::sleep(Duration::from_millis(110));
            }
        }
        encoder.flush(&mut send);
        send(encoder.hello(&host(name), true));
        stream = std::net::TcpStream::connect(address)?;
    }
    std::thread::sleep(Duration::from_millis(500));
    let got = collected(running);
    assert_eq!(got["senders"].as_array().map(Vec::len), Some(2), "{got}");
    let folder = Folder::open(&[&there])?;
    let of = |name: &str| folder.hosts().iter().find(|h| h.info().hostname == name).expect("it is there");
    assert_eq!(of("small").row_count(Table::Anchor), 10);
    assert!(of("large").row_count(Table::Anchor) > 1000);
    assert!(folder.hosts().iter().map(|h| h.bytes()).sum::<u64>() <= 700_000);
    assert!(folder.defects().is_empty() && of("large").missing().is_empty(), "{:?}", folder.defects());
    Ok(())
}
