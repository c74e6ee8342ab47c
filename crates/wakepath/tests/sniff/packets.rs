//! `wakepath export --to pcapng`: the packets of one request, out of the capture.

use super::capture::Pcap;
use super::{check, path, run, sniff_file, stderr, stdout};
use std::process::Command;
use wakepath_decode::readers::pcap::{PcapReader, Record};

/// Two connections, used by turns; on each three requests, one behind the other.
fn capture() -> Pcap {
    let mut pcap = Pcap::default();
    let mut both = [pcap.connect(20_001), pcap.connect(20_002)];
    for i in 0..3 {
        for connection in &mut both {
            pcap.exchange(connection, "/item/17", 200, 1_000_000 + i * 1000, 4000);
        }
    }
    both.into_iter().for_each(|c| pcap.close(c));
    pcap
}

#[test]
fn the_packets_of_one_request_are_taken_out_of_the_capture() -> super::Tested {
    let dir = tempfile::tempdir()?;
    let (file, folder, out) = (dir.path().join("shop.pcap"), dir.path().join("t"), dir.path().join("one.pcapng"));
    let made = capture();
    std::fs::write(&file, made.bytes())?;
    sniff_file(&file, &folder);
    let each = check("each", &stdout(&run(&["requests", "--each", "--limit", "0", "--json", path(&folder)])));
    let mut all: Vec<_> = each["requests"].as_array().ok_or("requests")?.iter().collect();
    all.sort_by_key(|r| r["at_ns"].as_i64());
    let asked = all[3];
    let id = asked["request"].as_str().ok_or("an id")?;
    let export = ["export", path(&folder), "--to", "pcapng", "--request", id, "-o", path(&out)];
    let without = run(&export);
    let said = stderr(&without);
    assert!(without.status.code() == Some(1) && !out.exists(), "{said}");
    assert!(said.contains("keeps no packets") && said.contains(&format!("--capture {}", path(&file))), "{said}");
    let exported = run(&[&export[..], &["--capture", path(&file)]].concat());
    assert!(exported.status.success() && stderr(&exported).contains("4 packets"), "{}", stderr(&exported));

    // the request and the three parts of its reply, as they are in the capture
    let (mut packets, mut reader) = (Vec::new(), PcapReader::new());
    let bytes = std::fs::read(&out)?;
    reader.feed(&bytes, &mut |r| {
        if let Record::Packet(p) = r {
            packets.push((p.at_ns, p.link, p.bytes.to_vec()));
        }
    });
    reader.finish();
    assert_eq!((reader.counts().fault_count, packets.len()), (0, 4));
    let begun = asked["at_ns"].as_i64().ok_or("a time")?;
    assert_eq!((packets[0].0, packets[0].1), (u64::try_from(begun)?, 1));
    assert!(packets[0].2.ends_with(b"GET /item/17 HTTP/1.1\r\nHost: shop\r\n\r\n"));
    let ports: Vec<&[u8]> = packets.iter().map(|p| &p.2[34..38]).collect();
    let port = 20_002u16.to_be_bytes();
    assert!(ports.iter().all(|p| p[..2] == port || p[2..] == port), "{ports:?}");
    assert!(packets.iter().all(|p| made.bytes().windows(p.2.len()).any(|w| w == p.2)));

    let other = dir.path().join("other.pcap");
    std::fs::write(&other, Pcap::default().bytes())?;
    let mut elsewhere = export;
    let nothing = dir.path().join("nothing.pcapng");
    elsewhere[7] = path(&nothing);
    let elsewhere = run(&[&elsewhere[..], &["--capture", path(&other)]].concat());
    assert!(stderr(&elsewhere).contains("the capture has no packets"), "{}", stderr(&elsewhere));
    let shown = Command::new("tshark").args(["-r", path(&out), "-T", "fields", "-e", "frame.comment"]).output();
    let Some(shown) = shown.ok().filter(|o| o.status.success()) else {
        println!("skipped in part: no tshark");
        return Ok(());
    };
    let comments = stdout(&shown);
    assert!(comments.lines().count() == 4 && comments.lines().all(|l| l.contains(": GET /")), "{shown:?}");
    Ok(())
}
