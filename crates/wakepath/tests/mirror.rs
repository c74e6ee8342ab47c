//! Mirrors on a real switch: set up, proved by traffic, removed, and all as before; also when killed at any moment.

#[path = "mirror/bed.rs"]
mod bed;
#[path = "support/mod.rs"]
mod support;
#[path = "mirror/traffic.rs"]
mod traffic;

use bed::{Bed, REMOTE};
use std::collections::HashSet;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{check, stderr, stdout};
use traffic::{ACK, Came, PSH_ACK, SYN, Segment, Tap, send};

/// A little of everything, of two services.
fn segments() -> Vec<Segment> {
    let new = Segment::new;
    vec![
        new(true, 80, SYN, 60),
        new(false, 80, SYN | ACK, 60),
        new(true, 80, PSH_ACK, 500),
        new(false, 80, ACK, 1400),
        new(false, 80, PSH_ACK, 1000),
        new(true, 80, ACK, 60),
        new(true, 81, PSH_ACK, 300),
        new(false, 81, PSH_ACK, 300),
        new(false, 81, ACK, 60),
    ]
}

/// Which segments are let through.
type Wanted = fn(&Segment) -> bool;

/// One way of mirroring, and what it should let through.
struct Case<'a> {
    args: &'a [&'a str],
    /// Where copies come out, and how many bytes of tunnel are before each.
    tap: (&'a str, usize),
    wanted: Wanted,
    /// To how many bytes copies are cut.
    cut: usize,
}

/// Sends everything; what came to the tap, of which `count` is expected, and to the two hosts.
fn pass(tap: (&str, usize), first: u32, count: usize) -> (Vec<Segment>, Vec<Came>, Vec<Came>) {
    let (mut copies, mut a, mut b) = (Tap::at(tap.0), Tap::at("ha"), Tap::at("hb"));
    let sent = send(&segments(), first);
    // each end sees what it sends too
    let mut arrived: Vec<Came> = a.take(sent.len(), 0).into_iter().filter(|(s, _)| !s.is_request).collect();
    arrived.extend(b.take(sent.len(), 0).into_iter().filter(|(s, _)| s.is_request));
    arrived.sort();
    let mut copies = copies.take(count, tap.1);
    copies.sort();
    (sent, copies, arrived)
}

/// All is as it was before; where it is not, what differs.
fn assert_as_before(bed: &Bed, before: &str, what: &str) {
    let now = bed.state();
    let only = |a: &str, b: &str| {
        let b: HashSet<&str> = b.lines().collect();
        a.lines().filter(|l| !b.contains(l)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(now == before, "{what}: gone: {:#?}, new: {:#?}", only(before, &now), only(&now, before));
}

/// The switch learns who is where, so that nothing is flooded afterwards.
fn teach() {
    let mut m = Tap::at("hm");
    send(&[Segment::new(false, 1, ACK, 60), Segment::new(true, 1, ACK, 60), Segment::new(false, 1, ACK, 60)], 0);
    m.take(1, 0);
}

fn whole(sent: &[Segment], wanted: impl Fn(&Segment) -> bool, cut: usize) -> Vec<Came> {
    let cut_to = |s: &Segment| s.length.min(cut);
    let mut all: Vec<Came> =
        sent.iter().filter(|s| wanted(s)).map(|s| (Segment { length: cut_to(s), ..*s }, cut_to(s))).collect();
    all.sort();
    all
}

/// Until copies come through a new tunnel: the switch reads the routes again after each port that was added, and drops what
/// it has no way for meanwhile. A minute at most; what is proved afterwards fails where none came.
fn await_tunnel(bed: &Bed, case: &Case<'_>) {
    let wanted = segments().into_iter().find(|s| (case.wanted)(s)).expect("a segment that is let through");
    let end = Instant::now() + Duration::from_secs(60);
    let mut tap = Tap::at(case.tap.0);
    while Instant::now() < end {
        bed.introduce_remote();
        send(&[wanted], 0);
        if !tap.what_comes(Duration::from_millis(300), case.tap.1).is_empty() {
            break;
        }
    }
    // the last one's copy may still be on its way
    while !tap.what_comes(Duration::from_millis(100), case.tap.1).is_empty() {}
}

fn prove(bed: &Bed, case: &Case<'_>) {
    let what = case.args.join(" ");
    let before = bed.state();
    let dry = bed.mirrored(&[case.args, &["--dry-run"]].concat());
    assert!(dry.contains("# undone by:") && (dry.contains("ovs-") || dry.contains("tc filter add")), "{dry}");
    assert_as_before(bed, &before, &format!("{what}: dry run"));

    let id = bed.mirrored(case.args);
    if case.tap.0 == "ht" {
        await_tunnel(bed, case);
    }
    let count = segments().iter().filter(|s| (case.wanted)(s)).count();
    let (sent, copies, arrived) = pass(case.tap, 1000, count);
    assert_eq!(copies, whole(&sent, case.wanted, case.cut), "{what}");
    assert_eq!(arrived, whole(&sent, |_| true, usize::MAX), "{what}: what is mirrored arrives as ever");

    let shown = check("mirror", &bed.mirrored(&["show", "--json"]));
    assert_eq!((shown["mirrors"].as_array().map(Vec::len), &shown["mirrors"][0]["id"]), (Some(1), &id.as_str().into()));
    assert!(bed.mirrored(&["show"]).contains(&id));
    assert_eq!(bed.mirrored(&["clean", &id]), id);
    assert_as_before(bed, &before, &what);
    let (sent, copies, arrived) = pass(case.tap, 2000, 0);
    assert_eq!((copies, arrived), (vec![], whole(&sent, |_| true, usize::MAX)), "{what}: after it was cleaned up");
}

#[test]
fn ports_are_mirrored() {
    let Some(bed) = Bed::start() else { return };
    teach();
    let tap = ("hm", 0);
    let port = ["port", "--bridge", "br0", "--from", "pb", "--to", "pm"];
    prove(&bed, &Case { args: &port, tap, wanted: |_| true, cut: usize::MAX });
    let came_in = [&port[..], &["--direction", "in"]].concat();
    prove(&bed, &Case { args: &came_in, tap, wanted: |s| !s.is_request, cut: usize::MAX });
    let truncated = ["truncated", "--from", "pb", "--to", "pm"];
    prove(&bed, &Case { args: &truncated, tap, wanted: |_| true, cut: 118 });
    let longer = [&truncated[..], &["--length", "headers+200", "--direction", "out"]].concat();
    prove(&bed, &Case { args: &longer, tap, wanted: |s| s.is_request, cut: 318 });
}

#[test]
fn packets_are_selected_by_address_port_and_flags() {
    let Some(bed) = Bed::start() else { return };
    teach();
    let tap = ("hm", 0);
    let to = ["selective", "--to", "pm"];
    let prove = |more: &[&str], wanted, cut| {
        prove(&bed, &Case { args: &[&to[..], more].concat(), tap, wanted, cut });
    };
    prove(&["--port", "80"], |s| s.port == 80, usize::MAX);
    prove(&["--port", "80", "--flags", "psh"], |s| s.port == 80 && s.flags & 8 != 0, usize::MAX);
    prove(
        &["--address", "10.0.0.2", "--port", "80", "--port", "81", "--flags", "psh-or-ack"],
        |s| s.flags & 0x18 != 0,
        usize::MAX,
    );
    prove(&["--address", "10.0.0.2", "--truncate", "headers"], |_| true, 98);
    prove(&["--port", "81", "--flags", "psh", "--truncate", "200"], |s| s.port == 81 && s.flags & 8 != 0, 200);
    prove(&["--address", "10.0.1.0/24"], |_| false, usize::MAX);
}

#[test]
fn copies_go_through_tunnels() {
    let Some(bed) = Bed::start() else { return };
    bed.add_way();
    teach();
    for (via, before) in [("vxlan", 50), ("gre", 38)] {
        let to = ["tunnel", "--bridge", "br0", "--via", via, "--remote", REMOTE];
        let tap = ("ht", before);
        let prove = |more: &[&str], wanted, cut| {
            prove(&bed, &Case { args: &[&to[..], more].concat(), tap, wanted, cut });
        };
        prove(&["--from", "pb"], |_| true, usize::MAX);
        prove(&["--address", "10.0.0.2", "--truncate", "headers"], |_| true, 98);
        prove(&["--port", "80", "--flags", "psh"], |s| s.port == 80 && s.flags & 8 != 0, usize::MAX);
    }
    // what the bridge floods stays out of a tunnel for selected packets
    let args = ["tunnel", "--bridge", "br0", "--via", "vxlan", "--remote", REMOTE, "--key", "7", "--port", "80"];
    // in user space a mirror's cut would leave outer headers that are wrong
    let cut =
        ["tunnel", "--bridge", "br0", "--via", "gre", "--remote", REMOTE, "--from", "pb", "--truncate", "headers"];
    let refused = bed.mirror(&cut);
    assert!(!refused.status.success() && stderr(&refused).contains("user space"), "{}", stderr(&refused));
    let id = bed.mirrored(&args);
    bed.appctl(&["fdb/flush", "br0"]);
    let mut tap = Tap::at("ht");
    let sent = send(&[Segment::new(true, 9, ACK, 60), Segment::new(true, 80, ACK, 60)], 3000);
    let came = tap.take(1, 50);
    assert_eq!(came, whole(&sent[1..], |_| true, usize::MAX));
    assert_eq!(bed.mirrored(&["clean"]), id);
}

#[test]
fn interfaces_are_mirrored_without_a_switch() {
    let Some(bed) = Bed::without_switch() else { return };
    for name in ["a", "b", "m"] {
        bed.cable(name);
    }
    // a bridge of the kernel is not there everywhere; the two ends of b's cable are enough
    bed.tool("ip", &["link", "del", "pa"]);
    bed.tool("ip", &["link", "add", "ha", "type", "veth", "peer", "name", "pa"]);
    for end in ["ha", "pa"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        bed.tool("ip", &["link", "set", end, "up"]);
    }
    let before = bed.state();
    // as seen from pb, what leaves hb (replies) comes in
    let wanted_in: [(&[&str], Wanted); 4] = [
        (&[], |s| !s.is_request),
        (&["--port", "80"], |s| !s.is_request && s.port == 80),
        (&["--port", "80", "--flags", "psh"], |s| !s.is_request && s.port == 80 && s.flags & 8 != 0),
        (&["--address", "10.0.0.2", "--flags", "psh-or-ack"], |s| !s.is_request && s.flags & 0x18 != 0),
    ];
    for (more, wanted) in wanted_in {
        let id = bed.mirrored(&[&["tc", "--from", "pb", "--to", "pm"], more].concat());
        let mut m = Tap::at("hm");
        let sent = send(&segments(), 1000);
        let mut came = m.take(sent.iter().filter(|s| wanted(s)).count(), 0);
        came.sort();
        assert_eq!(came, whole(&sent, wanted, usize::MAX), "{more:?}");
        let shown = check("mirror", &bed.mirrored(&["show", "--json"]));
        assert!(shown["mirrors"][0]["packets"].as_u64() >= Some(1), "{shown}");
        let refused = bed.mirror(&["tc", "--from", "pb", "--to", "pm"]);
        assert!(!refused.status.success() && stderr(&refused).contains(&id), "{}", stderr(&refused));
        assert_eq!(bed.mirrored(&["clean"]), id);
        assert_as_before(&bed, &before, &format!("{more:?}"));
    }

    // another's qdisc and filters stay as they are, and see what they saw
    bed.tool("tc", &["qdisc", "add", "dev", "pb", "clsact"]);
    let drop = ["filter", "add", "dev", "pb", "ingress", "pref", "40000", "protocol", "all", "u32", "match", "u32"];
    bed.tool("tc", &[&drop[..], &["0", "0", "action", "mirred", "egress", "redirect", "dev", "pa"]].concat());
    let before = bed.state();
    let id = bed.mirrored(&["tc", "--from", "pb", "--to", "pm", "--direction", "in"]);
    let (mut m, mut a) = (Tap::at("hm"), Tap::at("ha"));
    let sent = send(&segments()[1..2], 2000);
    assert_eq!(m.take(1, 0), whole(&sent, |_| true, usize::MAX));
    assert_eq!(a.take(1, 0), whole(&sent, |_| true, usize::MAX), "the filter behind still redirects");
    assert_eq!(bed.mirrored(&["clean", &id]), id);
    assert_as_before(&bed, &before, "");

    // who added filters to our qdisc keeps it
    bed.tool("tc", &["qdisc", "del", "dev", "pb", "clsact"]);
    let id = bed.mirrored(&["tc", "--from", "pb", "--to", "pm"]);
    bed.tool("tc", &[&drop[..], &["0", "0", "action", "mirred", "egress", "redirect", "dev", "pa"]].concat());
    assert_eq!(bed.mirrored(&["clean"]), id);
    let state = bed.state();
    assert!(state.contains("qdisc clsact") && state.contains("pref 40000"), "{state}");
    assert!(!state.contains("pref 3056") && !state.contains("wakepath"), "{state}");
}

#[test]
fn what_would_change_other_traffic_is_refused() {
    let Some(bed) = Bed::start() else { return };
    let refused = |args: &[&str], words: &[&str]| {
        let before = bed.state();
        for dry in [&[][..], &["--dry-run"]] {
            let output = bed.mirror(&[args, dry].concat());
            let said = stderr(&output);
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{said}");
            assert!(words.iter().all(|w| said.contains(w)), "{args:?}: {said}");
        }
        assert_as_before(&bed, &before, "");
    };
    let selective = ["selective", "--port", "80", "--to", "pm"];
    refused(&["port", "--from", "px", "--to", "pm"], &["br0 has no port px", "pa, pb, pm"]);
    refused(&["port", "--from", "pm", "--to", "pm"], &["pm cannot be mirrored to itself"]);
    refused(&["port", "--bridge", "br1", "--from", "pa", "--to", "pm"], &["no bridge br1", "there are br0"]);
    let (before, first) = (bed.state(), bed.mirrored(&selective));
    refused(&selective, &["has a selective mirror already", &first, "clean"]);
    // others' flows are neither counted as ours nor touched
    bed.tool("ovs-ofctl", &["add-flow", "br0", "cookie=0x77616b66,priority=5,udp,actions=drop"]);
    assert_eq!(bed.mirrored(&["clean"]), first);
    assert_ne!(bed.state(), before);
    refused(&selective, &["its own flows", "udp actions=drop", "mirror port"]);
    bed.tool("ovs-ofctl", &["del-flows", "br0", "udp"]);
    assert_as_before(&bed, &before, "");
    bed.tool("ovs-ofctl", &["del-flows", "br0"]);
    refused(&selective, &["no flows", "forwards nothing"]);
    // a mirror of ports leaves flows alone, whatever they are
    bed.tool("ovs-ofctl", &["add-flow", "br0", "table=0,priority=7,in_port=pa,actions=output:pb"]);
    let before = bed.state();
    let id = bed.mirrored(&["port", "--from", "pa", "--to", "pm"]);
    assert_eq!(bed.mirrored(&["clean"]), id);
    assert_as_before(&bed, &before, "port");
    bed.tool("ovs-ofctl", &["replace-flows", "br0", "-"]);
    bed.tool("ovs-ofctl", &["del-flows", "br0"]);
    bed.tool("ovs-ofctl", &["add-flow", "br0", "priority=0,actions=NORMAL"]);
    bed.tool("ovs-vsctl", &["--timeout=120", "--no-wait", "set-controller", "br0", "tcp:127.0.0.1:1"]);
    refused(&selective, &["has a controller", "tcp:127.0.0.1:1"]);
    bed.tool("ovs-vsctl", &["--timeout=120", "--no-wait", "del-controller", "br0"]);
    bed.tool("ovs-vsctl", &["--timeout=120", "add-br", "br1", "--", "set", "bridge", "br1", "datapath_type=netdev"]);
    refused(&selective, &["which --bridge", "br0, br1"]);

    // a switch that is not there
    let output = support::run(&["mirror", "port", "--from", "pa", "--to", "pm", "--ovs-run", "/nowhere"]);
    assert!(
        stderr(&output).contains("does not answer") && stderr(&output).contains("--ovs-run"),
        "{}",
        stderr(&output)
    );
    for (wrong, words) in [
        (&["mirror", "selective", "--to", "pm", "--port", "x"][..], "--port"),
        (&["mirror", "selective", "--to", "pm", "--address", "10.0.0.1/99"], "from 1 to 32"),
        (&["mirror", "truncated", "--from", "pa", "--to", "pm", "--length", "3"], "headers+N"),
        (&["mirror", "tunnel", "--via", "gre", "--remote", "10.0.0.1"], "--from"),
        (&["mirror", "clean", "xyz"], "no mirror's id"),
    ] {
        let output = support::run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

/// Small, fast and repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Starts a command and kills it after a random time up to `most`, with what it started or without; whether it had ended by
/// itself.
fn kill_amid(bed: &Bed, args: &[&str], most: Duration, random: &mut Random) -> bool {
    let mut command = bed.mirror_command(args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().expect("it starts");
    std::thread::sleep(Duration::from_micros(random.below(most.as_micros() as u64)));
    let ended = matches!(child.try_wait(), Ok(Some(_)));
    let pid = child.id() as i32;
    let whom = if random.below(2) == 0 { pid } else { -pid };
    if !ended {
        // SAFETY: our own child, which was not waited for, or its group.
        unsafe { libc::kill(whom, libc::SIGKILL) };
    }
    child.wait().expect("it ends");
    ended
}

/// `WAKEPATH_MIRROR_CYCLES` sets the number of rounds, `WAKEPATH_MIRROR_SEED` repeats one order.
#[test]
fn killed_at_any_moment_it_can_be_undone() {
    let Some(bed) = Bed::start() else { return };
    bed.add_way();
    let number = |name: &str, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (cycles, seed) = (number("WAKEPATH_MIRROR_CYCLES", 20), number("WAKEPATH_MIRROR_SEED", 0x5eed));
    let mut random = Random(seed);
    let tunnel =
        |via| ["tunnel", "--bridge", "br0", "--via", via, "--remote", REMOTE, "--port", "80", "--flags", "psh"];
    let (vxlan, gre) = (tunnel("vxlan"), tunnel("gre"));
    let ways: [&[&str]; 6] = [
        &["port", "--bridge", "br0", "--from", "pb", "--to", "pm"],
        &["selective", "--bridge", "br0", "--port", "80", "--flags", "psh-or-ack", "--to", "pm"],
        &["truncated", "--bridge", "br0", "--from", "pb", "--to", "pm"],
        &vxlan,
        &gre,
        &["tc", "--from", "hm", "--to", "ha", "--port", "80", "--flags", "psh-or-ack"],
    ];
    let before = bed.state();
    let (mut amid, mut left) = (0, 0);
    // as long as one takes here; more after each that was killed, less after each that was too fast for that
    let begin = Instant::now();
    bed.mirrored(ways[3]);
    let mut most = begin.elapsed();
    bed.mirrored(&["clean"]);
    for cycle in 0..cycles {
        let way = ways[cycle as usize % ways.len()];
        let ended = kill_amid(&bed, way, most, &mut random);
        most = if ended { most * 3 / 4 } else { most * 5 / 4 };
        amid += u64::from(!ended);
        left += u64::from(bed.state() != before);
        // a clean-up that is killed too is done again
        if random.below(2) == 0 {
            amid += u64::from(!kill_amid(&bed, &["clean"], most, &mut random));
        }
        bed.mirrored(&["clean"]);
        assert_as_before(&bed, &before, &format!("seed {seed}, cycle {cycle}: {way:?}"));
    }
    println!("{cycles} cycles, killed amid {amid} times, with something to remove after {left}");
    assert!(cycles < 20 || (amid > 0 && left > 0), "killed amid {amid}, left {left}: it proves nothing");
}
