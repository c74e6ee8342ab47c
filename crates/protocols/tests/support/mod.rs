//! What the tests of this crate share: the format of golden cases, a sink that writes down what it is told, and the
//! TCP payload of capture files.
//!
//! A golden case is a folder with `input.txt` and `expected.txt`. Lines of `input.txt`:
//!
//! ```text
//! # a comment
//! ! datagram              the flow is of datagrams
//! ! no turns              turns are not announced (else: wherever the direction changes)
//! ! offset 1000           both directions begin at this stream offset
//! > "GET / HTTP/1.1\r\n"  bytes to the server; escapes \r \n \t \0 \\ \" \xNN; `* 100` after it repeats
//! < "HTTP/1.1 200 OK"     bytes to the client
//! ~> 500                  500 bytes to the server that were not captured; ~< to the client
//! fin>                    the direction to the server is closed; fin< the other; fin both
//! ```
//!
//! `expected.txt` holds a line for each call of the sink. `UPDATE_GOLDEN=1` writes it anew.
#![allow(dead_code)]

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wakepath_protocols::{
    AnyProcessor, Border, Defect, Dir, EndHow, Message, Outcome, Processor, Protocol, Role, Sink, Status, Transport,
    Witness,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Data(Dir, Vec<u8>),
    Gap(Dir, u64),
    Turn(Dir),
    Shutdown(Dir),
}

pub struct Case {
    pub name: String,
    pub folder: PathBuf,
    pub protocol: Protocol,
    pub offset: u64,
    pub steps: Vec<Step>,
}

impl Case {
    pub fn datagrams(&self) -> bool {
        self.protocol.transport() == Transport::Datagram
    }
}

pub fn golden_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// All cases of all protocols, in the order of their names.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in folders(&golden_root()) {
        let id = folder.file_name().unwrap().to_str().unwrap().to_string();
        if !id.starts_with("proto.") {
            continue;
        }
        for situation in folders(&folder) {
            cases.push(read_case(&situation));
        }
    }
    cases
}

pub fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let mut folders: Vec<_> = entries.map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

/// The case in a folder, whose folder has its protocol's id.
pub fn read_case(folder: &Path) -> Case {
    let id = folder.parent().and_then(|p| p.file_name()).and_then(|n| n.to_str()).expect("a protocol's folder");
    let input = folder.join("input.txt");
    let text = std::fs::read_to_string(&input).unwrap_or_else(|e| panic!("{}: {e}", input.display()));
    let (mut transport, mut turns, mut offset) = (Transport::Stream, true, 0);
    let mut steps = Vec::new();
    let mut side = None;
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", input.display(), number + 1);
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let dir = if word.ends_with('>') { Dir::ToServer } else { Dir::ToClient };
        if turns && matches!(word, ">" | "<" | "~>" | "~<") && side != Some(dir) {
            side = Some(dir);
            steps.push(Step::Turn(dir));
        }
        match (word, rest) {
            ("" | "#", _) => {}
            ("!", "datagram") => transport = Transport::Datagram,
            ("!", "no turns") => turns = false,
            ("!", rest) if rest.starts_with("offset ") => offset = rest[7..].parse().unwrap(),
            (">" | "<", _) => {
                steps.push(Step::Data(dir, unquote(rest).unwrap_or_else(|| panic!("{}: bad string", place()))))
            }
            ("~>" | "~<", _) => {
                steps.push(Step::Gap(dir, rest.parse().unwrap_or_else(|_| panic!("{}: bad number", place()))))
            }
            ("fin>" | "fin<", _) => steps.push(Step::Shutdown(dir)),
            ("fin", "both") => {
                steps.push(Step::Shutdown(Dir::ToServer));
                steps.push(Step::Shutdown(Dir::ToClient));
            }
            _ => panic!("{}: not understood", place()),
        }
    }
    let protocol = Protocol::ALL
        .iter()
        .copied()
        .find(|p| p.id() == id && p.transport() == transport)
        .unwrap_or_else(|| panic!("{}: no such protocol in the registry", folder.display()));
    let name = format!("{id}/{}", folder.file_name().unwrap().to_str().unwrap());
    Case { name, folder: folder.to_owned(), protocol, offset, steps }
}

fn unquote(text: &str) -> Option<Vec<u8>> {
    let (quoted, behind) = text.strip_prefix('"')?.rsplit_once('"')?;
    let mut bytes = Vec::new();
    let mut rest = quoted.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other @ (b'\\' | b'"') => other,
            _ => return None,
        });
    }
    match behind.trim() {
        "" => Some(bytes),
        times => Some(bytes.repeat(times.strip_prefix("* ")?.parse().ok()?)),
    }
}

/// A message as a test compares it with what others see.
#[derive(Clone, Debug)]
pub struct Seen {
    pub dir: Dir,
    pub start: u64,
    pub role: Role,
    pub verb: String,
    pub target: String,
    pub args: Option<u32>,
    pub outcome: Outcome,
    pub code: Option<u16>,
    pub class: String,
    pub witness: Option<Witness>,
}

/// Writes down each call as a line, and checks what every processor promises.
#[derive(Default)]
pub struct Recorder {
    pub lines: Vec<String>,
    pub roles: Vec<(Dir, Role)>,
    pub seen: Vec<Seen>,
    /// Where messages ended by the protocol's framing, so that it was known before the bytes after came.
    pub ends: HashSet<(Dir, u64)>,
    open: HashMap<(Dir, u64), u32>,
}

impl Sink for Recorder {
    fn message(&mut self, m: &Message<'_>) {
        let mut line = format!("{} {:?} {}..", arrow(m.dir), m.role, m.start).to_lowercase();
        match m.end {
            Border::Known(end) => {
                assert!(end >= m.start, "{line}{end}");
                write!(line, "{end}").unwrap();
            }
            Border::Open => line.push('?'),
        }
        write!(line, " head {}", m.head_end).unwrap();
        let a = &m.attrs;
        for text in [a.verb, a.target, a.status.class] {
            assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text:?}");
        }
        if !a.verb.is_empty() {
            write!(line, " verb {}", a.verb).unwrap();
        }
        if !a.target.is_empty() {
            write!(line, " target {:?}", a.target).unwrap();
        }
        if let Some(args) = a.args {
            write!(line, " args {args}").unwrap();
        }
        line.push_str(&status(&a.status));
        if a.cut {
            line.push_str(" cut");
        }
        if m.attrs.queued {
            line.push_str(if m.attrs.relayed { " queued, to be answered by who takes it" } else { " queued" });
        }
        if m.attrs.awaits {
            line.push_str(" awaits");
        }
        if m.attrs.subscribes {
            line.push_str(" subscribes");
        }
        for witness in m.witnesses {
            match witness {
                Witness::FastCgi(id) => write!(line, " fastcgi={id}"),
                Witness::Dns(id) => write!(line, " dns={id:#06x}"),
                Witness::Http2(id) => write!(line, " http2={id}"),
                Witness::Kafka(id) => write!(line, " kafka={id}"),
                Witness::Mongo(id) => write!(line, " mongo={id}"),
                Witness::Memcached(id) => write!(line, " memcached={id}"),
                Witness::AmqpChannel(id) => write!(line, " channel={id}"),
                Witness::AmqpDelivery { channel, tag } => write!(line, " delivery={channel}/{tag}"),
                Witness::X11(id) => write!(line, " x11={id}"),
                Witness::Named(id) => write!(line, " named={id:x}"),
                Witness::XRequestId(hash) => write!(line, " x-request-id={hash:016x}"),
                Witness::TraceParent { trace, span } => {
                    let hex = |id: &[u8]| id.iter().fold(String::new(), |s, b| s + &format!("{b:02x}"));
                    write!(line, " traceparent={}/{}", hex(trace), hex(span))
                }
            }
            .unwrap();
        }
        *self.open.entry((m.dir, m.start)).or_default() += 1;
        self.roles.push((m.dir, m.role));
        self.seen.push(Seen {
            dir: m.dir,
            start: m.start,
            role: m.role,
            verb: a.verb.into(),
            target: a.target.into(),
            args: a.args,
            outcome: a.status.outcome,
            code: a.status.code,
            class: a.status.class.into(),
            witness: m.witnesses.first().copied(),
        });
        self.lines.push(line);
    }

    fn end(&mut self, dir: Dir, start: u64, end: u64, how: EndHow) {
        assert!(end >= start, "end {start}..{end}");
        let open = self.open.get_mut(&(dir, start)).filter(|open| **open > 0);
        if how == EndHow::Framed {
            self.ends.insert((dir, end));
        }
        *open.unwrap_or_else(|| panic!("end of what was never begun: {dir:?} {start}; {:?}", self.lines)) -= 1;
        let how = format!("{how:?}").to_lowercase();
        self.lines.push(format!("{} end {start}..{end} {how}", arrow(dir)));
    }

    fn amend(&mut self, dir: Dir, start: u64, s: Status<'_>) {
        if let Some(seen) = self.seen.iter_mut().rev().find(|seen| (seen.dir, seen.start) == (dir, start)) {
            (seen.outcome, seen.code, seen.class) = (s.outcome, s.code, s.class.into());
        }
        self.lines.push(format!("{} amend {start}{}", arrow(dir), status(&s)));
    }

    fn defect(&mut self, defect: Defect, dir: Dir, pos: u64) {
        assert!(!defect.remedy().is_empty());
        self.lines.push(format!("{} defect {} at {pos}", arrow(dir), defect.id()));
    }
}

impl Recorder {
    pub fn count(&self, role: Role) -> usize {
        self.roles.iter().filter(|(_, r)| *r == role).count()
    }

    pub fn defects(&self) -> Vec<&String> {
        self.lines.iter().filter(|l| l.contains(" defect ")).collect()
    }
}

fn arrow(dir: Dir) -> char {
    match dir {
        Dir::ToServer => '>',
        Dir::ToClient => '<',
    }
}

fn status(status: &Status<'_>) -> String {
    let mut text = String::new();
    match status.outcome {
        Outcome::Unknown => {}
        Outcome::Ok => text.push_str(" ok"),
        Outcome::Error => text.push_str(" error"),
    }
    if let Some(code) = status.code {
        write!(text, " code {code}").unwrap();
    }
    if !status.class.is_empty() {
        write!(text, " class {}", status.class).unwrap();
    }
    text
}

/// Feeds `steps` to a new processor, each chunk cut as `cut` says: given the length left, the length of the piece.
pub fn run(protocol: Protocol, offset: u64, steps: &[Step], mut cut: impl FnMut(usize) -> usize) -> Recorder {
    let mut processor = AnyProcessor::new(protocol);
    let mut recorder = Recorder::default();
    let mut pos = [offset; 2];
    for step in steps {
        match step {
            Step::Data(dir, bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let piece = cut(rest.len()).clamp(1, rest.len());
                    let at = &mut pos[dir.index()];
                    processor.data(*dir, *at, &rest[..piece], &mut recorder);
                    *at = at.saturating_add(piece as u64);
                    rest = &rest[piece..];
                }
            }
            step => apply(&mut processor, &mut recorder, step, &mut pos),
        }
    }
    recorder
}

/// Feeds `steps` as one does who stops at borders: shown what `cut` allows, the processor says how much it takes. Checks
/// that a border lies where it stopped, and nowhere else.
pub fn run_to_borders(
    protocol: Protocol,
    offset: u64,
    steps: &[Step],
    mut cut: impl FnMut(usize) -> usize,
) -> Recorder {
    let mut processor = AnyProcessor::new(protocol);
    let mut recorder = Recorder::default();
    let mut pos = [offset; 2];
    for step in steps {
        let Step::Data(dir, bytes) = step else {
            apply(&mut processor, &mut recorder, step, &mut pos);
            if let Step::Shutdown(dir) = step {
                recorder.ends.retain(|(closed, _)| closed != dir); // where it was to end it does not
            }
            continue;
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let at = &mut pos[dir.index()];
            let piece = cut(rest.len()).clamp(1, rest.len());
            let ahead = processor.ahead(*dir);
            let taken = processor.data_to_border(*dir, *at, &rest[..piece], &mut recorder);
            assert!((1..=piece).contains(&taken), "{taken} of {piece}");
            assert!(ahead.min(piece as u64) <= taken as u64, "{ahead} ahead, but a border behind {taken}");
            *at = at.saturating_add(taken as u64);
            let ends = |at: u64| recorder.ends.contains(&(*dir, at));
            assert!(taken == piece || ends(*at), "{protocol:?} stopped at {at}, where nothing ends");
            let early = (*at - taken as u64 + 1..*at).find(|at| ends(*at));
            assert_eq!(early, None, "{protocol:?} went on over a border");
            rest = &rest[taken..];
        }
    }
    recorder
}

fn apply(processor: &mut AnyProcessor, recorder: &mut Recorder, step: &Step, pos: &mut [u64; 2]) {
    match step {
        Step::Data(..) => {}
        Step::Gap(dir, len) => {
            processor.gap(*dir, pos[dir.index()], *len, recorder);
            pos[dir.index()] = pos[dir.index()].saturating_add(*len);
        }
        Step::Turn(dir) => processor.turn(*dir, pos[dir.index()], recorder),
        Step::Shutdown(dir) => processor.shutdown(*dir, pos[dir.index()], recorder),
    }
}

/// The first difference of two recordings, for a message that can be read.
pub fn same(name: &str, whole: &Recorder, split: &Recorder) {
    for (n, (a, b)) in whole.lines.iter().zip(&split.lines).enumerate() {
        assert_eq!(a, b, "{name}: line {}", n + 1);
    }
    assert_eq!(whole.lines.len(), split.lines.len(), "{name}: {:?} {:?}", whole.lines, split.lines);
}

/// A segment or datagram with payload, as captured.
pub struct Packet {
    pub from: (Vec<u8>, u16),
    pub to: (Vec<u8>, u16),
    /// Sequence and acknowledgement number.
    pub tcp_seq: Option<(u32, u32)>,
    pub payload: Vec<u8>,
    /// Bytes of payload that the capture left out.
    pub missing: u64,
    pub fin: bool,
}

/// The IPv4 TCP and UDP packets of a classic pcap file with Ethernet frames.
pub fn packets(file: &[u8]) -> Vec<Packet> {
    let big = file[..4] == [0xa1, 0xb2, 0xc3, 0xd4];
    let word = |at: usize| {
        let bytes = file[at..at + 4].try_into().unwrap();
        if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    assert_eq!(word(0), 0xa1b2_c3d4, "not a classic pcap file");
    let skip = match word(20) {
        1 => 14,
        113 => 16,
        other => panic!("link type {other}"),
    };
    let (mut at, mut packets) = (24, Vec::new());
    while at + 16 <= file.len() {
        let captured = word(at + 8) as usize;
        let frame = &file[at + 16..at + 16 + captured];
        at += 16 + captured;
        let Some(ip) = frame.get(skip..) else {
            continue;
        };
        if frame[skip - 2..skip] != [8, 0] || ip.len() < 20 || ip[0] >> 4 != 4 {
            continue;
        }
        let half = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
        let long = |at: usize| u32::from_be_bytes(ip[at..at + 4].try_into().unwrap());
        let (head, total) = (usize::from(ip[0] & 15) * 4, usize::from(half(2)));
        let (behind, tcp_seq, fin) = match ip[9] {
            6 => (
                head + usize::from(ip[head + 12] >> 4) * 4,
                Some((long(head + 4), long(head + 8))),
                ip[head + 13] & 5 != 0,
            ),
            17 => (head + 8, None, false),
            _ => continue,
        };
        let payload = ip[behind.min(ip.len())..total.min(ip.len())].to_vec();
        let missing = total.saturating_sub(behind + payload.len()) as u64;
        if payload.is_empty() && !fin {
            continue;
        }
        packets.push(Packet {
            from: (ip[12..16].to_vec(), half(head)),
            to: (ip[16..20].to_vec(), half(head + 2)),
            tcp_seq,
            payload,
            missing,
            fin,
        });
    }
    packets
}
