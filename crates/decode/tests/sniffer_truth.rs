//! Simulated conversations with the truth about them: several connections at once, pipelined and not, cut into segments
//! anywhere, out of order, sent again over other borders, captured twice. Without a loss everything is found, at exactly
//! its times; with losses, and joined in the middle, nothing is paired wrongly.

mod wire;

use proptest::prelude::*;
use std::collections::BTreeMap;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::ExchangeKind;
use wire::*;

const US: u64 = 1000;

/// Small steps of a linear congruential generator: the same from the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Truth {
    request_first: u64,
    request_head: u64,
    reply_first: u64,
    reply_last: u64,
}

/// What is said on one connection, and when: a request has its number as its path's length and in no other way.
fn conversation(dice: &mut Dice, port: u16, exchanges: u64, depth: u64) -> (Vec<Frame>, Vec<Truth>) {
    let postgres = dice.below(3) == 0;
    let mut tcp = Tcp::new(port, if postgres { 5432 } else { 80 });
    tcp.seq = [dice.below(1 << 32) as u32, dice.below(1 << 32) as u32];
    let mut at = (1 + dice.below(1000)) * US;
    let mut frames = tcp.open(at);
    let (mut truths, mut asked, mut answered) = (Vec::<Truth>::new(), 0, 0);
    while answered < exchanges {
        at += (20 + dice.below(400)) * US;
        let ask = asked < exchanges && asked - answered < depth && (asked == answered || dice.below(2) == 0);
        let message: Vec<u8> = match (ask, postgres) {
            (true, false) => {
                let pad = "x".repeat(dice.below(60) as usize);
                format!("GET /path HTTP/1.1\r\nHost: h\r\nPad: {pad}\r\n\r\n").into_bytes()
            }
            (true, true) => {
                let text = format!("SELECT {}\0", dice.below(1_000_000));
                [&b"Q"[..], &(text.len() as u32 + 4).to_be_bytes(), text.as_bytes()].concat()
            }
            (false, false) => {
                let length = dice.below(5000);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                [head.into_bytes(), vec![b'y'; length as usize]].concat()
            }
            (false, true) => {
                let row = vec![b'z'; dice.below(3000) as usize];
                let tagged = |tag: u8, body: &[u8]| [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
                [tagged(b'D', &row), tagged(b'C', b"SELECT 1\0"), tagged(b'Z', b"I")].concat()
            }
        };
        let (first, mut rest) = (at, &message[..]);
        while !rest.is_empty() {
            let size = match dice.below(4) {
                0 => 1 + dice.below(20),
                1 => 1 + dice.below(300),
                _ => 1400,
            };
            let (part, behind) = rest.split_at(rest.len().min(size as usize));
            rest = behind;
            at += if rest.len() + part.len() == message.len() { 0 } else { (1 + dice.below(30)) * US };
            frames.push(tcp.data(at, ask, part));
        }
        if ask {
            truths.push(Truth { request_first: first, request_head: at, reply_first: 0, reply_last: 0 });
            asked += 1;
        } else {
            (truths[answered as usize].reply_first, truths[answered as usize].reply_last) = (first, at);
            answered += 1;
        }
        if dice.below(3) == 0 {
            frames.push(tcp.ack(at + 5 * US, ask != (dice.below(2) == 0)));
        }
    }
    frames.extend(tcp.close(at + 500 * US));
    (frames, truths)
}

fn world(seed: u64, connections: u16, depth: u64) -> (Vec<Frame>, BTreeMap<(u16, u64), Truth>) {
    let mut dice = Dice(seed);
    let (mut frames, mut truths) = (Vec::new(), BTreeMap::new());
    for port in 0..connections {
        let exchanges = 1 + dice.below(40);
        let (said, truth) = conversation(&mut dice, 20_000 + port, exchanges, depth);
        frames.extend(said);
        truths.extend(truth.into_iter().map(|t| ((20_000 + port, t.request_first), t)));
    }
    frames.sort_by_key(|f| f.at);
    (frames, truths)
}

/// Answered exchanges by client's port and time of the request.
fn answered(rows: &Rows) -> BTreeMap<(u16, u64), Truth> {
    let ports: BTreeMap<_, _> = rows.flows.iter().map(|f| (f.flow, f.client_port)).collect();
    let of = |time: MonoNs| time.0;
    rows.of(ExchangeKind::Answered)
        .iter()
        .map(|e| {
            let truth = Truth {
                request_first: of(e.request_first),
                request_head: of(e.request_head),
                reply_first: of(e.reply_first),
                reply_last: of(e.reply_last),
            };
            ((ports[&e.flow], of(e.request_first)), truth)
        })
        .collect()
}

/// Every answered exchange is one that was, as far as its times were seen.
fn none_is_wrong(found: &BTreeMap<(u16, u64), Truth>, truths: &BTreeMap<(u16, u64), Truth>) -> Result<(), String> {
    for ((port, _), f) in found {
        // Its first packet may be missing; that of its head's end tells the request then.
        let of = |t: &&Truth| t.request_first <= f.request_first && f.request_head <= t.request_head;
        let truth = truths.iter().filter(|((p, _), _)| p == port).map(|(_, t)| t).rfind(of);
        let right = truth.is_some_and(|t| t.reply_first <= f.reply_first && f.reply_first <= t.reply_last);
        if !right {
            return Err(format!("{port}: {f:?} where {truth:?} is right"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn without_a_loss_all_is_found_at_its_times(
        seed in any::<u64>(), depth in 1u64..5, twice in any::<bool>(), late in 0u64..3000,
    ) {
        let (frames, truths) = world(seed, 6, depth);
        let mut dice = Dice(!seed);
        let mut all: Vec<(u64, Frame)> = Vec::new();
        for frame in frames {
            if twice {
                let again = frame.later(3 * US);
                all.push((again.at + dice.below(late + 1) * US, again));
            }
            // The second one of two is later, and its time is not the packet's.
            // Nor does a SYN come late: a single byte that overtakes it looks like a keep-alive.
            let prompt = twice || frame.bytes[33] & SYN != 0;
            all.push((frame.at + if prompt { 0 } else { dice.below(late + 1) * US }, frame));
        }
        all.sort_by_key(|(order, _)| *order);
        let rows = sniff(&all.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>());
        let found = answered(&rows);
        prop_assert!(found == truths, "{:?}\n{:?}\n{:?}", rows.defects, rows.last_flows().len(), rows.lines());
        prop_assert_eq!(rows.exchanges.len(), truths.len());
        prop_assert!(rows.last_flows().iter().all(|f| f.missing_bytes == [0; 2] && f.retransmitted == [0; 2]));
    }

    #[test]
    fn with_one_packet_in_a_hundred_lost_nothing_is_paired_wrongly(
        seed in any::<u64>(), depth in 1u64..5, late in 0u64..2000, cut in prop::option::of(60usize..1500),
    ) {
        let (frames, truths) = world(seed, 6, depth);
        let mut dice = Dice(!seed);
        let mut all: Vec<(u64, Frame)> = Vec::new();
        for frame in frames {
            if dice.below(100) != 0 {
                let frame = if let Some(cut) = cut { frame.cut(cut) } else { frame };
                all.push((frame.at + dice.below(late + 1) * US, frame));
            }
        }
        all.sort_by_key(|(order, _)| *order);
        let rows = sniff(&all.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>());
        let right = none_is_wrong(&answered(&rows), &truths);
        prop_assert!(right.is_ok(), "{:?}", right);
    }

    #[test]
    fn joined_at_any_packet_nothing_is_paired_wrongly(seed in any::<u64>(), depth in 1u64..5, from in 0.0f64..1.0) {
        let (frames, truths) = world(seed, 6, depth);
        let rows = sniff(&frames[(from * frames.len() as f64) as usize..]);
        let right = none_is_wrong(&answered(&rows), &truths);
        prop_assert!(right.is_ok(), "{:?} {:#?}", right, rows.lines());
    }
}
