use super::*;
use crate::folder::HostInfo;
use crate::ids::{MonoNs, SniffedFlowId, StrId};
use crate::intern::Interner;
use crate::rows::*;
use proptest::prelude::*;
use proptest::sample::select;

const SESSION: u64 = 0x0123_4567_89ab_cdef;

/// Packs events and gives the frames.
fn packed(events: &[Event], strings: &Interner, frame_bytes: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut e = Encoder::new(SESSION, frame_bytes);
    for event in events {
        assert!(e.push(event, &|id| strings.get(id).unwrap_or_default(), &mut |f| frames.push(f.to_vec())));
    }
    e.flush(&mut |f| frames.push(f.to_vec()));
    assert_eq!(e.rows(), events.len() as u64);
    frames
}

/// Reads frames back, with their strings numbered as `strings` does.
fn read(frames: &[Vec<u8>], strings: &mut Interner) -> Vec<Event> {
    let mut out = Vec::new();
    for (i, bytes) in frames.iter().enumerate() {
        let frame = Frame::read(bytes).expect("a frame");
        let before = (frame.session, frame.sequence, frame.rows_before, frame.kind);
        assert_eq!(before, (SESSION, i as u64, out.len() as u64, FrameKind::Rows));
        frame.rows(&mut |t| strings.intern(t), &mut out).expect("its rows");
    }
    out
}

/// The strings that rows below name.
fn strings() -> Interner {
    let mut strings = Interner::new();
    for text in ["proto.http1", "GET", "/cart/{id}", "/a/rather/long/path/{n}/with/{id}/in/it", "timeout", "loss.x"] {
        strings.intern(text);
    }
    strings
}

fn time() -> impl Strategy<Value = MonoNs> {
    prop_oneof![Just(0), Just(5_000), 4_000u64..9_000, any::<u64>()].prop_map(MonoNs)
}

fn small<T: std::fmt::Debug + Clone + 'static>(full: impl Strategy<Value = T> + 'static, zero: T) -> BoxedStrategy<T> {
    prop_oneof![Just(zero), full].boxed()
}

fn string() -> impl Strategy<Value = StrId> {
    // 1 is "…"
    (0u32..8).prop_map(StrId)
}

prop_compose! {
    fn an_exchange()(
        t in prop::array::uniform7(time()),
        flow in prop_oneof![0u64..4, any::<u64>()],
        n in prop::array::uniform4(prop_oneof![Just(OPEN), 0u64..1000, any::<u64>()]),
        w in prop::array::uniform4(small(any::<u64>(), 0)),
        packets in any::<[u32; 2]>(),
        missing_bytes in small(any::<u32>(), 0),
        s in prop::array::uniform4(string()),
        (status, interim, cut) in (any::<u16>(), small(any::<u8>(), 0), 0u8..2),
        (what, kind, failed) in (select(ExchangeKind::ALL), select(WitnessKind::ALL), select(Failed::ALL)),
        (request_how, reply_how) in (select(MessageEndHow::ALL), select(MessageEndHow::ALL)),
    ) -> Event {
        Event::SniffedExchange(SniffedExchangeRow {
            at: t[0], flow: SniffedFlowId(flow),
            request_start: n[0], request_end: n[1], reply_start: n[2], reply_end: n[3],
            request_first: t[1], request_head: t[2], request_last: t[3],
            reply_first: t[4], reply_head: t[5], reply_last: t[6],
            witness: w[0], trace: w[1], span: w[2], request_id: w[3],
            request_packets: packets[0], reply_packets: packets[1], missing_bytes,
            protocol: s[0], verb: s[1], target: s[2], detail: s[3],
            status, what, witness_kind: if w[0] == 0 { WitnessKind::None } else { kind },
            failed, cut, request_how, reply_how, interim,
            ..Default::default()
        })
    }
}

fn an_address() -> impl Strategy<Value = [u8; 16]> {
    // few, so that a frame has several rows of a flow
    prop_oneof![4 => Just([7; 16]), 1 => any::<[u8; 16]>()]
}

prop_compose! {
    fn a_flow()(
        t in prop::array::uniform4(time()),
        flow in prop_oneof![0u64..4, any::<u64>()],
        counts in prop::array::uniform5(small(any::<[u64; 2]>(), [0; 2])),
        troubles in prop::array::uniform3(small(any::<[u32; 2]>(), [0; 2])),
        tunnel in prop_oneof![4 => Just(0u64), 1 => any::<u64>()],
        (client, server, long) in (an_address(), an_address(), any::<bool>()),
        s in prop::array::uniform2(string()),
        ports in prop::array::uniform3(prop_oneof![4 => Just(2), 1 => any::<u16>()]),
        (ip_protocol, what, side, reset_by) in (5u8..7, select(FlowRowKind::ALL), select(SideHow::ALL), select(ResetBy::ALL)),
    ) -> Event {
        let cut = |a: [u8; 16]| if long { a } else { [a[0], a[1], a[2], a[3], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
        Event::SniffedFlow(SniffedFlowRow {
            at: t[0], flow: SniffedFlowId(flow), syn: t[1], syn_ack: t[2], ack: t[3],
            origin: counts[0], packets: counts[1], wire_bytes: counts[2], stream_bytes: counts[3],
            missing_bytes: counts[4], tunnel, client: cut(client), server: cut(server),
            retransmitted: troubles[0], reordered: troubles[1], zero_windows: troubles[2],
            protocol: s[0], reason: s[1], client_port: ports[0], server_port: ports[1], family: ports[2],
            ip_protocol, what, side, reset_by,
            ..Default::default()
        })
    }
}

fn an_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => an_exchange(),
        2 => a_flow(),
        1 => (time(), time(), any::<u64>(), string()).prop_map(|(at, from, count, what)| {
            Event::Loss(LossRow { at, from, count, what, ..Default::default() })
        }),
        1 => (time(), any::<u64>(), any::<u64>()).prop_map(|(at, real_ns, error_ns)| {
            Event::Anchor(AnchorRow { at, real_ns, error_ns, ..Default::default() })
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_packed_is_read(events in prop::collection::vec(an_event(), 0..60), frame_bytes in 60usize..4000) {
        let mut strings = strings();
        let frames = packed(&events, &strings, frame_bytes);
        for f in &frames {
            let rows = Frame::read(f).expect("a frame").rows;
            prop_assert!(f.len() <= frame_bytes || rows == 1, "{} bytes, {rows} rows", f.len());
        }
        prop_assert_eq!(read(&frames, &mut strings), events);
    }

    #[test]
    fn a_changed_bit_or_a_cut_is_noticed(
        events in prop::collection::vec(an_event(), 1..8), at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        for frame in packed(&events, &strings(), 1400) {
            let mut changed = frame.clone();
            changed[at.index(frame.len())] ^= 1 << bit;
            prop_assert!(Frame::read(&changed).is_err());
            prop_assert!(Frame::read(&frame[..at.index(frame.len())]).is_err());
        }
    }

    #[test]
    fn any_body_under_a_right_checksum_is_rows_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 16..200)) {
        let kind = bytes[3] % 5;
        bytes[..4].copy_from_slice(&[b'W', b'f', VERSION, kind]);
        let crc = checksum(&bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        if let Ok(frame) = Frame::read(&bytes) {
            let mut out = Vec::new();
            let read = frame.rows(&mut |t| StrId(t.len() as u32), &mut out);
            prop_assert_eq!(out.len() as u64, if read.is_ok() { frame.rows } else { 0 });
            prop_assert!(frame.kind != FrameKind::Rows || frame.hello().is_err());
        }
    }

    /// Whatever is dropped, doubled and put out of order: each frame is taken once, and what was not is counted exactly.
    #[test]
    fn what_does_not_come_is_counted(
        frames in prop::collection::vec((0u64..30, any::<u16>(), 0u8..10), 1..120), told in any::<bool>(),
    ) {
        let (mut before, mut sent) = (0, Vec::new());
        for (i, (rows, place, fate)) in frames.iter().enumerate() {
            let copies = match fate { 0 | 1 => 0, 2 => 2, _ => 1 };
            for copy in 0..copies {
                // some come up to thirty frames late
                let late = if *fate == 3 || copy == 1 { u64::from(*place) % 30 } else { 0 };
                sent.push((i as u64 + late, i as u64, before, *rows));
            }
            before += rows;
        }
        sent.sort();
        let (mut gaps, mut taken, mut seen) = (Gaps::default(), 0, std::collections::BTreeSet::new());
        for (when, sequence, rows_before, rows) in sent {
            if gaps.frame(sequence, rows_before, rows, MonoNs(1000 + sequence), when) {
                prop_assert!(seen.insert(sequence), "{sequence} was taken twice");
                taken += rows;
            } else {
                prop_assert!(seen.contains(&sequence), "{sequence} was left out");
            }
        }
        let last = if told { frames.len() as u64 } else { gaps.next() };
        let all = frames[..last as usize].iter().map(|f| f.0).sum::<u64>();
        gaps.total(last, all, MonoNs(1000 + last), 99);
        let mut lost = 0;
        while let Some(l) = gaps.settle(u64::MAX) {
            prop_assert!(l.from <= l.at && l.at <= MonoNs(1000 + last), "{l:?}");
            lost += l.rows;
        }
        prop_assert_eq!(taken + lost, all);
    }

    #[test]
    fn foreign_numbers_do_no_harm(
        frames in prop::collection::vec((any::<[u64; 4]>(), any::<bool>(), 0u64..u64::MAX), 0..50),
    ) {
        let mut gaps = Gaps::default();
        for ([rows_before, rows, base, now], is_total, sequence) in frames {
            if is_total {
                gaps.total(sequence, rows_before, MonoNs(base), now);
            } else {
                gaps.frame(sequence, rows_before, rows, MonoNs(base), now);
            }
        }
        while let Some(lost) = gaps.settle(u64::MAX) {
            prop_assert!(lost.rows > 0 && lost.from <= lost.at);
        }
    }
}

#[test]
fn a_late_frame_fills_its_gap_and_what_stays_away_is_lost() {
    let mut gaps = Gaps::default();
    assert!(gaps.frame(0, 0, 10, MonoNs(100), 1));
    assert!(gaps.frame(3, 30, 10, MonoNs(400), 2));
    assert_eq!(gaps.settle(2), None, "frames 1 and 2 may still come");
    assert!(gaps.frame(2, 20, 10, MonoNs(300), 3));
    assert!(!gaps.frame(2, 20, 10, MonoNs(300), 3) && !gaps.frame(0, 0, 10, MonoNs(100), 3));
    let lost = Lost { rows: 10, from: MonoNs(100), at: MonoNs(300), is_before: false };
    assert_eq!((gaps.settle(10), gaps.settle(10)), (Some(lost), None));
    // the last frames did not come: only the sender's total tells
    gaps.total(6, 55, MonoNs(500), 4);
    assert_eq!(gaps.settle(10).map(|l| l.rows), Some(15));
}

#[test]
fn what_was_sent_before_anybody_listened_is_told_apart() {
    let mut gaps = Gaps::default();
    assert!(gaps.frame(7, 70, 10, MonoNs(900), 1));
    let lost = Lost { rows: 70, from: MonoNs(900), at: MonoNs(900), is_before: true };
    assert_eq!(gaps.settle(10), Some(lost));
    let mut gaps = Gaps::default();
    gaps.total(0, 0, MonoNs(0), 1);
    assert!(gaps.frame(1, 10, 10, MonoNs(900), 1), "the sender was heard before frame 0 was sent");
    assert_eq!(gaps.settle(10).map(|l| l.is_before), Some(false));
}

#[test]
fn a_hello_says_who_sends_and_how_much_was_sent() {
    let host = HostInfo {
        hostname: "switch".into(),
        boot_id: "b-1".into(),
        kernel_release: "6.1".into(),
        arch: "x86_64".into(),
        cpus: 2,
        selection: "--iface br0".into(),
        flags: vec!["--filter tcp".into()],
        agent_version: "0.1.0".into(),
        clock: "monotonic".into(),
        ..HostInfo::default()
    };
    let mut e = Encoder::new(SESSION, 1400);
    let anchor = Event::Anchor(AnchorRow { at: MonoNs(77), real_ns: 5, error_ns: 1, ..Default::default() });
    e.push(&anchor, &|_| b"", &mut |_| panic!("there is room"));
    e.flush(&mut |_| {});
    for (is_last, kind) in [(false, FrameKind::Hello), (true, FrameKind::Last)] {
        let frame = Frame::read(e.hello(&host, is_last)).expect("a frame");
        assert_eq!((frame.kind, frame.sequence, frame.rows_before, frame.base), (kind, 1, 1, MonoNs(77)));
        assert_eq!(frame.hello(), Ok(Hello { host: host.clone() }));
    }
}

#[test]
fn what_is_no_frame_says_why() {
    assert_eq!(Frame::read(b"GET / HTTP/1.1\r\n\r\n").err(), Some(Bad::Foreign));
    assert_eq!(Frame::read(b"").err(), Some(Bad::Foreign));
    let mut later = Encoder::new(1, 1400).hello(&HostInfo::default(), false).to_vec();
    later[2] = 9;
    assert_eq!(Frame::read(&later).err(), Some(Bad::Version(9)));
    assert!(Bad::Version(9).to_string().contains("use the same wakepath"));
}

/// The SDN paper's replies of 10 kB, forwarded: its off-site sniffer sent 1.25 % of the bytes and 12 % of the packets of
/// port mirroring (section 5.7).
#[test]
fn a_record_is_small_against_the_packets_it_stands_for() {
    let strings = strings();
    let mut events = Vec::new();
    let mut at = 1_000_000_000_000u64;
    for i in 0..1000u64 {
        at += 400_000 + (i * 7919) % 90_000;
        let request = (1 << 32) + 77_777 + i * 180;
        let reply = (1 << 32) + 3_000_000_000 + i * 10_300;
        let (began, answered) = (MonoNs(at - 812_345 - i % 977), MonoNs(at - 21_111 - i % 131));
        events.push(Event::SniffedExchange(SniffedExchangeRow {
            at: MonoNs(at),
            // thirty clients take turns
            flow: SniffedFlowId(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i % 30 + 1)),
            request_start: request,
            request_end: request + 180,
            reply_start: reply,
            reply_end: reply + 10_300,
            request_first: began,
            request_head: began,
            request_last: began,
            reply_first: answered,
            reply_head: answered,
            reply_last: MonoNs(at),
            request_packets: 1,
            reply_packets: 8,
            protocol: StrId(2),
            verb: StrId(3),
            target: StrId(4 + (i % 2) as u32),
            status: 200,
            what: ExchangeKind::Answered,
            request_how: MessageEndHow::Framed,
            reply_how: MessageEndHow::Framed,
            ..SniffedExchangeRow::default()
        }));
    }
    let frames = packed(&events, &strings, 1400);
    // Ethernet, IP and UDP around each datagram; around each segment Ethernet, IP and TCP with time stamps
    let forwarded: usize = frames.iter().map(|f| f.len() + 42).sum();
    let mirrored = 1000 * (180 + 10_300 + (1 + 8 + 4) * 66);
    let share = 100.0 * forwarded as f64 / mirrored as f64;
    assert!(share <= 0.6, "{share:.2} % of the bytes");
    assert!(frames.len() <= 50, "{} datagrams for 1000 exchanges of 13 packets", frames.len());
}
