//! The network vantage: may packets be captured, is there what filters and mirrors need.

use super::{check, check_to_do};
use crate::rights;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use wakepath_capture::mirror::{self, Command, Looked, Switch};
use wakepath_capture::packets::{self, LiveOptions, LiveSource};
use wakepath_present::doctor::{Capability, Check, Trial, Vantage, Verdict};
use wakepath_present::units;

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
/// How long the trial's packet is waited for.
const TRIAL: Duration = Duration::from_millis(500);

/// Looks and tries.
pub fn vantage() -> Vantage {
    let begin = Instant::now();
    let tried = trial();
    let duration_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let works = tried.is_ok();
    let error = tried.as_ref().err().cloned();
    let summary = if works {
        "`wakepath sniff` can be used on this host, live and on capture files.".to_owned()
    } else {
        "`wakepath sniff --pcap` reads capture files; capturing live does not work, see below.".to_owned()
    };
    let capability =
        |name, number, needed_for| Capability { name, needed_for, present: rights::has(number), kept: true };
    let capabilities = vec![
        capability("CAP_NET_RAW", CAP_NET_RAW, "capture packets, and receive GRE"),
        capability("CAP_NET_ADMIN", CAP_NET_ADMIN, "set up mirrors by tc, and have long queues for tunnels"),
    ];
    let mut checks: Vec<Check> = Vec::new();
    checks.push(match &tried {
        Ok(found) => {
            check("network.trial", "trial", Verdict::Yes, format!("{found} in {}", units::duration(duration_ns)))
        }
        // the error ends in what to do
        Err(e) => check("network.trial", "trial", Verdict::No, e.clone()),
    });
    checks.push(match packets::libpcap() {
        Ok(version) => check("network.libpcap", "filters", Verdict::Yes, version),
        Err(_) => check_to_do(
            "network.libpcap",
            "filters",
            Verdict::Limit,
            "libpcap is not there, so --filter cannot be used",
            "Install it, on Debian and Ubuntu:\napt-get install libpcap0.8",
        ),
    });
    checks.push(open_vswitch());
    checks.push(traffic_control());
    Vantage {
        vantage: "network",
        works,
        summary,
        backend: None,
        trial: Trial { tried: true, programs: 0, duration_ns, error, works_with: None },
        checks,
        tracepoints: Vec::new(),
        capabilities,
    }
}

/// Captures on loopback and sends itself a packet.
fn trial() -> Result<&'static str, String> {
    let options = LiveOptions { interfaces: vec!["lo".into()], ring_bytes: 1 << 18, ..LiveOptions::default() };
    let mut source = LiveSource::open(options).map_err(|e| e.to_string())?;
    let words = b"wakepath doctor";
    let sent = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.send_to(words, s.local_addr()?));
    if sent.is_err() {
        return Ok("packet sockets can be opened (loopback is down here, so no packet was sent)");
    }
    let begin = Instant::now();
    let mut came = false;
    while !came && begin.elapsed() < TRIAL {
        let took = source.poll(Duration::from_millis(20), &mut |p| came |= p.bytes.ends_with(words));
        took.map_err(|e| e.to_string())?;
    }
    if came {
        Ok("a packet was sent over loopback and captured")
    } else {
        Err("a packet socket was opened, and a packet over loopback did not come to it; is traffic filtered away before it \
             (nft list ruleset)?"
            .into())
    }
}

fn open_vswitch() -> Check {
    let (id, title) = ("network.openvswitch", "Open vSwitch");
    match mirror::look(&Switch::default()) {
        Looked::Missing => {
            check(id, title, Verdict::Note, "not on this host; `wakepath mirror tc` mirrors interfaces without it")
        }
        Looked::Silent(words) => check_to_do(
            id,
            title,
            Verdict::Limit,
            format!("installed, and does not answer: {words}"),
            "Start it, or say where its sockets are (wakepath mirror … --ovs-run DIR); as root:\n\
             systemctl start openvswitch-switch",
        ),
        Looked::There(bridges) if bridges.is_empty() => {
            check(id, title, Verdict::Note, "running, and has no bridge to mirror")
        }
        Looked::There(bridges) => {
            check(id, title, Verdict::Yes, format!("`wakepath mirror` can be used on {}", bridges.join(", ")))
        }
    }
}

fn traffic_control() -> Check {
    let (id, title) = ("network.tc", "mirrors by tc");
    match Command::new("tc", ["-V"]).run() {
        Ok(version) => check(id, title, Verdict::Yes, version.trim().to_owned()),
        Err(words) => check_to_do(
            id,
            title,
            Verdict::Limit,
            words,
            "Needed for `wakepath mirror tc` alone. Install it, on Debian and Ubuntu:\napt-get install iproute2",
        ),
    }
}
