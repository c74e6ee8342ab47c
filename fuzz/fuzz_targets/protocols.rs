//! Every processor under any sequence of chunks, gaps, turns and closes: no panic, no message ended twice, texts
//! printable, and the same in one-byte pieces, and in pieces that stop at borders, as whole.
//!
//! `cargo +nightly fuzz run protocols`, from the root of the repository.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::{mutate, mutations, within};
use wakepath_protocols::{
    AnyProcessor, Defect, Dir, EndHow, Likely, Message, Processor, Protocol, Sink, Status, Transport, recognise,
};

#[derive(Default, PartialEq, Debug)]
struct Log {
    lines: Vec<String>,
    open: Vec<(Dir, u64)>,
}

impl Sink for Log {
    fn message(&mut self, m: &Message<'_>) {
        for text in [m.attrs.verb, m.attrs.target, m.attrs.status.class] {
            assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)));
        }
        self.open.push((m.dir, m.start));
        self.lines.push(format!("{m:?}"));
    }
    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        assert!(end >= start);
        let at = self.open.iter().position(|open| *open == (dir, start));
        self.open.swap_remove(at.expect("the end of what was never begun"));
        self.lines.push(format!("{dir:?} {start}..{end} {how:?}"));
    }
    fn amend(&mut self, dir: Dir, start: u64, status: Status<'_>) {
        self.lines.push(format!("{dir:?} {start} {status:?}"));
    }
    fn defect(&mut self, defect: Defect, dir: Dir, pos: u64) {
        self.lines.push(format!("{defect:?} {dir:?} {pos}"));
    }
}

/// The input is a row of steps: one byte of kind and direction, one of length, and that many bytes.
fn feed(protocol: Protocol, input: &[u8], piece: usize, borders: bool) -> Log {
    let (mut processor, mut log) = (AnyProcessor::new(protocol), Log::default());
    let (mut pos, mut rest) = ([1000u64; 2], input);
    while let [kind, length, behind @ ..] = rest {
        let dir = if kind & 1 == 0 { Dir::ToServer } else { Dir::ToClient };
        let at = &mut pos[dir.index()];
        rest = behind;
        match kind >> 1 & 7 {
            0 => {
                processor.gap(dir, *at, u64::from(*length) + 1, &mut log);
                *at += u64::from(*length) + 1;
            }
            1 => processor.turn(dir, *at, &mut log),
            2 if length & 7 == 0 => processor.shutdown(dir, *at, &mut log),
            _ => {
                let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*length)));
                rest = behind;
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    let chunk = &bytes[..piece.min(bytes.len())];
                    let taken = if borders {
                        let ahead = processor.ahead(dir).min(chunk.len() as u64);
                        let taken = processor.data_to_border(dir, *at, chunk, &mut log);
                        assert!((1..=chunk.len()).contains(&taken) && taken as u64 >= ahead);
                        taken
                    } else {
                        processor.data(dir, *at, chunk, &mut log);
                        chunk.len()
                    };
                    *at += taken as u64;
                    bytes = &bytes[taken..];
                }
            }
        }
    }
    log
}

/// A golden case's bytes as steps.
fn steps(file: Vec<u8>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for line in String::from_utf8_lossy(&file).lines() {
        let (dir, text) = match line.split_at_checked(3) {
            Some(("> \"", text)) => (0, text),
            Some(("< \"", text)) => (1, text),
            _ => continue,
        };
        out.push(vec![2 | dir, 0]);
        for chunk in unescaped(text).chunks(255) {
            out.push([&[6 | dir, chunk.len() as u8], chunk].concat());
        }
    }
    out
}

/// The bytes of a text up to its closing quote.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next().filter(|b| *b != b'"') {
        out.push(match if byte == b'\\' { bytes.next() } else { None } {
            None => byte,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'x') => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).unwrap_or(0) as u8;
                digit() << 4 | digit()
            }
            Some(other) => other,
        });
    }
    out
}

fn one(input: &[u8]) {
    let Some((&which, input)) = input.split_first() else {
        return;
    };
    let protocol = Protocol::ALL[usize::from(which) % Protocol::ALL.len()];
    let whole = feed(protocol, input, usize::MAX, false);
    if protocol.transport() == Transport::Stream {
        assert_eq!(whole, feed(protocol, input, 1, false), "{protocol:?}");
        assert_eq!(whole, feed(protocol, input, 7, false), "{protocol:?}");
        assert_eq!(whole, feed(protocol, input, usize::MAX, true), "{protocol:?}");
        assert_eq!(whole, feed(protocol, input, 9, true), "{protocol:?}");
    }
    // Bounded: no input makes more calls than it has bytes, by more than the few that one step may end.
    assert!(whole.lines.len() <= 20 * (input.len() + 1));
    let mut likely = Likely::default();
    for port in [0, 53, 3306, 5432, 6379, 9000, 9092, 11211] {
        recognise(protocol.transport(), None, input, (port, 0), &mut likely);
    }
}

fuzz_target!(|input: &[u8]| within(|| one(input)));

mutations!({
    let ids: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.id()).collect();
    mutate::golden(&ids, steps)
});
