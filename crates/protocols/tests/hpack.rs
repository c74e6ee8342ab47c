//! Header compression of HTTP/2: what an encoder wrote with the whole of its dynamic table is named right, or said to be unknown.

mod support;

use proptest::prelude::*;
use std::collections::VecDeque;
use support::{Step, run};
use wakepath_protocols::{Dir, Protocol, Role, Witness};

/// The size of a dynamic table unless its reader says another (RFC 9113, 6.5.2).
const TABLE: usize = 4096;

/// An encoder (RFC 7541, 2 to 6) that puts fields into its table, and names them from there.
struct Encoder {
    table: VecDeque<(String, String)>,
    room: usize,
}

/// A request: what it asks for, fields beside that, and which of its fields stay out of the table, bit by bit.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    path: String,
    others: Vec<(String, String)>,
    unkept: u16,
}

fn integer(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let most = (1usize << bits) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    integer(out, 0, 7, text.len());
    out.extend(text.as_bytes());
}

impl Encoder {
    fn evict(&mut self) {
        let size =
            |table: &VecDeque<(String, String)>| table.iter().map(|(n, v)| n.len() + v.len() + 32).sum::<usize>();
        while size(&self.table) > self.room {
            self.table.pop_back();
        }
    }

    /// Another size of the table, which is said at the start of a block.
    fn resize(&mut self, out: &mut Vec<u8>, room: usize) {
        integer(out, 0x20, 5, room);
        self.room = room;
        self.evict();
    }

    fn field(&mut self, out: &mut Vec<u8>, name: &str, value: &str, is_kept: bool) {
        let fixed = [(":method", "GET", 2), (":method", "POST", 3), (":path", "/", 4), (":scheme", "https", 7)];
        let dynamic = |found: Option<usize>| found.map(|at| at + 62);
        let same = fixed.iter().find(|f| (f.0, f.1) == (name, value)).map(|f| f.2);
        if let Some(index) = same.or(dynamic(self.table.iter().position(|(n, v)| (&n[..], &v[..]) == (name, value)))) {
            return integer(out, 0x80, 7, index);
        }
        // a name from the dynamic table is as good as one from the static one
        let named =
            dynamic(self.table.iter().position(|(n, _)| n == name)).or(fixed.iter().find(|f| f.0 == name).map(|f| f.2));
        let (first, bits) = if is_kept { (0x40, 6) } else { (0, 4) };
        integer(out, first, bits, named.unwrap_or(0));
        if named.is_none() {
            text(out, name);
        }
        text(out, value);
        if is_kept {
            self.table.push_front((name.into(), value.into()));
            self.evict();
        }
    }

    /// The frame of a request that ends with its head.
    fn request(&mut self, stream: u32, asked: &Asked, room: Option<usize>) -> Vec<u8> {
        let mut block = Vec::new();
        if let Some(room) = room {
            self.resize(&mut block, room);
        }
        let own = [(":method", &asked.method[..]), (":scheme", "https"), (":path", &asked.path[..])];
        let others = asked.others.iter().map(|(name, value)| (&name[..], &value[..]));
        for (i, (name, value)) in own.into_iter().chain(others).enumerate() {
            self.field(&mut block, name, value, asked.unkept >> (i % 16) & 1 == 0);
        }
        let head = [&(block.len() as u32).to_be_bytes()[1..], &[1, 5], &stream.to_be_bytes()].concat();
        [head, block].concat()
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let method = prop::sample::select(vec!["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]);
    // few of any length, so that they come again; no digits, for which templates stand
    let path = (0..60usize).prop_map(|n| format!("/{}/{}", "way".repeat(n % 20), "xyz".repeat(n / 20 + 1)));
    let other = (0..40usize, 0..50usize).prop_map(|(name, value)| (format!("x-{name}"), "v".repeat(value)));
    // most of what one sends stays the same
    let unkept = prop_oneof![3 => Just(0), 1 => any::<u16>()];
    (method, path, prop::collection::vec(other, 0..4), unkept).prop_map(|(method, path, others, unkept)| Asked {
        method: method.into(),
        path,
        others,
        unkept,
    })
}

/// The requests that a processor sees in these frames, by stream: method and path, as far as it names them.
fn seen(frames: &[Vec<u8>]) -> Vec<(u32, String, String)> {
    let steps: Vec<_> = std::iter::once(Step::Turn(Dir::ToServer))
        .chain(frames.iter().map(|frame| Step::Data(Dir::ToServer, frame.clone())))
        .collect();
    let recorder = run(Protocol::Http2, 0, &steps, |len| len);
    let of = |w: Option<Witness>| match w {
        Some(Witness::Http2(stream)) => stream,
        other => panic!("a request without a stream: {other:?}"),
    };
    let requests = recorder.seen.into_iter().filter(|m| m.role == Role::Request);
    requests.map(|m| (of(m.witness), m.verb, m.target)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_that_a_table_of_the_default_size_has_is_named(all in prop::collection::vec(asked(), 1..300), from in 0..300usize) {
        let mut encoder = Encoder { table: VecDeque::new(), room: TABLE };
        let frames: Vec<_> = (1..).step_by(2).zip(&all).map(|(stream, asked)| {
            // another size now and then, as some do to empty their tables
            let room = (asked.unkept & 0x3ff == 0x155).then_some(TABLE - 31 * usize::from(asked.unkept >> 10));
            encoder.request(stream, asked, room)
        }).collect();
        let expected: Vec<_> = (1..).step_by(2).zip(&all).map(|(s, a)| (s, a.method.clone(), a.path.clone())).collect();
        prop_assert_eq!(&seen(&frames), &expected);
        // joined later: right, or not known
        let from = from % all.len();
        let joined = seen(&frames[from..]);
        prop_assert_eq!(joined.len(), all.len() - from);
        for ((stream, verb, target), (is, method, path)) in joined.iter().zip(&expected[from..]) {
            prop_assert_eq!(stream, is);
            prop_assert!(verb.is_empty() || verb == method, "{} for {}", verb, method);
            prop_assert!(target.is_empty() || target == path, "{} for {}", target, path);
        }
    }
}

#[test]
fn a_table_of_entries_without_any_value_is_known_whole() {
    let mut encoder = Encoder { table: VecDeque::new(), room: TABLE };
    let asked = |path: &str, others: Vec<(String, String)>| Asked {
        method: "GET".into(),
        path: path.into(),
        others,
        unkept: 0,
    };
    // 32 bytes and a name: as many as there can be behind one path
    let names =
        (0..110u8).map(|n| ((char::from(b'!' + n % 94)).to_string().repeat(1 + usize::from(n / 94)), String::new()));
    let frames = vec![
        encoder.request(1, &asked("/old", Vec::new()), None),
        encoder.request(3, &asked("/old", names.collect()), None),
        encoder.request(5, &asked("/old", Vec::new()), None),
    ];
    assert_eq!(encoder.table.len(), 111);
    assert!(frames[2].len() < 9 + 6, "the path is named by its place");
    let paths: Vec<_> = seen(&frames).into_iter().map(|(_, _, path)| path).collect();
    assert_eq!(paths, ["/old"; 3]);
}
