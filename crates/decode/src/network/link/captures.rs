//! Captures from elsewhere: every folder `tests/golden/net.link/*` is a test with a capture and what its packets carry
//! (`UPDATE_GOLDEN=1` writes it anew); and what tshark says that packets carry.

use super::tests::Got;
use super::*;
use crate::readers::pcap::{PcapReader, Record};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use wakepath_testkit::data;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/net.link");

/// What each packet of a capture carries, by the packet's number from 1 on, and what was met besides.
fn read(file: &Path) -> (Vec<(usize, Got)>, Counts) {
    let (mut reader, mut link, mut counts) = (PcapReader::new(), Link::new(1 << 20), Counts::default());
    let (mut got, mut number) = (Vec::new(), 0);
    reader.feed(&std::fs::read(file).unwrap(), &mut |record| {
        if let Record::Packet(packet) = record {
            number += 1;
            link.take(&packet, &mut |inner| got.push((number, Got::of(inner))), &mut counts);
        }
    });
    reader.finish();
    assert_eq!(reader.counts().fault_count, 0, "{}", file.display());
    link.finish(&mut |inner| got.push((0, Got::of(inner))), &mut counts);
    (got, counts)
}

fn folders(root: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

fn address(bytes: &[u8]) -> String {
    match <[u8; 16]>::try_from(bytes) {
        Ok(six) => std::net::Ipv6Addr::from(six).to_string(),
        Err(_) => bytes.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
    }
}

/// Source, destination, protocol, ports, bytes of the transport layer.
fn summary(got: &Got) -> String {
    let ports = match (got.ip_protocol, &got.payload[..]) {
        (6 | 17, &[a, b, c, d, ..]) => format!("{} {}", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        _ => "- -".to_owned(),
    };
    format!("{} {} {} {ports} {}", address(&got.src), address(&got.dst), got.ip_protocol, got.payload_length)
}

#[test]
fn golden_captures() {
    for case in folders(GOLDEN) {
        let (got, mut counts) = read(&case.join("capture.pcap"));
        let mut text = String::new();
        for (number, got) in &got {
            let Got { tunnel, wire_bytes, payload, .. } = got;
            let summary = summary(got);
            writeln!(text, "{number}: {summary} captured {} wire {wire_bytes} tunnel {tunnel:x}", payload.len())
                .unwrap();
        }
        let defects: Vec<_> = counts.take().map(|(id, _)| id).collect();
        writeln!(text, "no IP {}, fragments {}, {defects:?}", counts.not_ip, counts.fragments).unwrap();
        wakepath_testkit::golden::holds(&case, &text);
    }
}

/// What tshark says of the innermost packets of TCP and UDP, by number; a datagram in fragments where its last one came.
fn tshark(file: &Path) -> Option<Vec<(usize, String)>> {
    const FIELDS: [&str; 13] = [
        "frame.number",
        "frame.protocols",
        "ip.src",
        "ip.dst",
        "ipv6.src",
        "ipv6.dst",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.hdr_len",
        "tcp.len",
        "udp.srcport",
        "udp.dstport",
        "udp.length",
    ];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-d", "udp.port==8472,vxlan", "-T", "fields", "-E", "occurrence=l"]);
    // One packet's fields, not those of what it is reassembled with above IP.
    command.args(["-o", "tcp.desegment_tcp_streams:false", "-o", "tcp.calculate_timestamps:false"]);
    FIELDS.iter().for_each(|f| {
        command.args(["-e", f]);
    });
    let out = command.output().ok()?;
    let mut packets = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let f: Vec<&str> = line.split('\t').collect();
        let protocols: Vec<&str> = f[1].split(':').collect();
        let layer = |names: &[&str]| protocols.iter().rposition(|p| names.contains(p));
        // An ICMP error quotes a packet, which nobody sent here; ARP in a tunnel is not the tunnel's datagram.
        if layer(&["icmp", "icmpv6", "arp"]).is_some() {
            continue;
        }
        let (ip, transport) = (layer(&["ip", "ipv6"]), layer(&["tcp", "udp"]));
        let (Some(ip), Some(transport)) = (ip, transport) else { continue };
        if transport < ip {
            continue;
        }
        let (src, dst) = if protocols[ip] == "ip" { (f[2], f[3]) } else { (f[4], f[5]) };
        let number = |text: &str| text.parse::<u32>().unwrap_or_default();
        let rest = match protocols[transport] {
            "tcp" => format!("6 {} {} {}", f[6], f[7], number(f[8]) + number(f[9])),
            _ => format!("17 {} {} {}", f[10], f[11], f[12]),
        };
        packets.push((f[0].parse().unwrap(), format!("{src} {dst} {rest}")));
    }
    Some(packets)
}

/// Holds what each capture's packets carry against tshark, where that is installed.
fn carry_what_tshark_says(files: &[PathBuf]) {
    let mut compared = 0;
    for file in files {
        let Some(theirs) = tshark(file) else {
            println!("skipped: there is no tshark");
            return;
        };
        // Datagrams that stayed without some fragments have number 0 here, and none there.
        let ours = read(file).0.into_iter().filter(|(number, got)| *number > 0 && matches!(got.ip_protocol, 6 | 17));
        let ours: Vec<_> = ours.collect();
        assert_eq!(ours.len(), theirs.len(), "{}", file.display());
        for ((number, got), theirs) in ours.iter().zip(&theirs) {
            // Where a mirror cut a packet, tshark believes the mirror's length.
            let cut = Got { payload_length: got.payload.len() as u32, ..got.clone() };
            let ours = [(*number, summary(got)), (*number, summary(&cut))];
            assert!(ours.contains(theirs), "{}: {ours:?}, tshark {theirs:?}", file.display());
        }
        compared += ours.len();
    }
    assert!(compared >= 40, "{compared}");
}

#[test]
fn packets_carry_what_tshark_says() {
    let mut files: Vec<PathBuf> = folders(GOLDEN).into_iter().map(|f| f.join("capture.pcap")).collect();
    // tshark does not look after the cut of a snapped capture as far as this does.
    files.retain(|file| !file.parent().is_some_and(|p| p.ends_with("snapped")));
    files.extend(data::own_captures());
    carry_what_tshark_says(&files);
}

#[test]
#[ignore = "needs WAKEPATH_DATA"]
fn others_packets_carry_what_tshark_says() {
    carry_what_tshark_says(&data::others_captures());
}
