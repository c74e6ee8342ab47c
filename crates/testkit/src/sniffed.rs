//! What a sniffer could have seen, from a text: a line a row, in the order in which rows are written.
//!
//! ```text
//! # times are microseconds, pairs are to the server / to the client
//! flow 1 begin 0 10.0.0.9:40000 10.0.0.1:80 syn=0 synack=200 ack=250
//! exchange 1 answered 900 proto.http1 GET /vote/{n} status=200 first=300 head=300 rfirst=800 rhead=850 last=900
//! flow 1 fin 1000 10.0.0.9:40000 10.0.0.1:80 packets=5/4 stream=120/900
//! lost 12
//! tick 20000000
//! window 10000000
//! ```
//!
//! Other words are settings of whoever runs the script: a name and a number.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use wakepath_model::defects::id as defect;
use wakepath_model::folder::{FolderError, FolderWriter, HostInfo, MONOTONIC, Options};
use wakepath_model::ids::{CommonNs, MonoNs, SniffedFlowId, StrId};
use wakepath_model::intern::Interner;
use wakepath_model::rows::{AnchorRow, ExchangeKind, FlowRowKind, OPEN, SideHow, SniffedExchangeRow, SniffedFlowRow};

/// What the host's clock shows at microsecond 0.
const CLOCK_NS: u64 = 1_000_000_000;
/// What the wall clock shows then.
const WALL_NS: u64 = 1_700_000_000_000_000_000;

/// A line.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A flow's row, as a capture of that number saw it.
    Flow(u16, SniffedFlowRow),
    /// An exchange's row, likewise.
    Exchange(u16, SniffedExchangeRow),
    /// Packets were lost.
    Lost(u64),
    /// Time went on.
    Tick(MonoNs),
}

/// A text as rows.
pub struct Script {
    /// The rows, in order.
    pub steps: Vec<Step>,
    /// Their strings.
    pub texts: Interner,
    /// Names and numbers.
    pub settings: BTreeMap<String, u64>,
}

/// A time of the text on the host's clock.
pub fn mono(us: u64) -> MonoNs {
    MonoNs(CLOCK_NS + us * 1000)
}

/// A host's time on the common line.
pub fn common(at: MonoNs) -> CommonNs {
    CommonNs((at.0 - CLOCK_NS + WALL_NS) as i64)
}

/// `key=value` words of a line.
struct Keys<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Keys<'a> {
    fn of(words: &[&'a str]) -> Keys<'a> {
        Keys(words.iter().filter_map(|w| w.split_once('=')).collect())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).map(|v| v.parse().unwrap_or_else(|_| panic!("{key}={v}: give a number")))
    }

    fn time(&self, key: &str) -> MonoNs {
        self.number(key).map_or(MonoNs(0), mono)
    }

    fn pair(&self, key: &str) -> [u64; 2] {
        self.0.get(key).map_or([0; 2], |v| {
            let (a, b) = v.split_once('/').unwrap_or_else(|| panic!("{key}={v}: give two numbers as 1/2"));
            [a, b].map(|n| n.parse().unwrap_or_else(|_| panic!("{key}={v}: give numbers")))
        })
    }
}

fn place(word: &str) -> ([u8; 16], u16, u16) {
    let address: SocketAddr = word.parse().unwrap_or_else(|_| panic!("{word}: give ADDRESS:PORT"));
    let mut bytes = [0; 16];
    match address {
        SocketAddr::V4(a) => bytes[..4].copy_from_slice(&a.ip().octets()),
        SocketAddr::V6(a) => bytes = a.ip().octets(),
    }
    (bytes, address.port(), if address.is_ipv4() { 2 } else { 10 })
}

/// What a number means.
fn code<C: TryFrom<u8>>(number: u64, words: &[&str]) -> C {
    let known = u8::try_from(number).ok().and_then(|n| C::try_from(n).ok());
    known.unwrap_or_else(|| panic!("{words:?}: {number} means nothing"))
}

impl Script {
    /// Reads a text.
    ///
    /// # Panics
    /// Where a line makes no sense: these texts are our own.
    pub fn read(text: &str) -> Script {
        let mut script = Script { steps: Vec::new(), texts: Interner::new(), settings: BTreeMap::new() };
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number =
                |i: usize| words[i].parse::<u64>().unwrap_or_else(|_| panic!("{line}: {} is no number", words[i]));
            match words[0] {
                "flow" => script.flow(&words),
                "exchange" => script.exchange(&words),
                "lost" => script.steps.push(Step::Lost(number(1))),
                "tick" => script.steps.push(Step::Tick(mono(number(1)))),
                name => {
                    script.settings.insert(name.to_owned(), number(1));
                }
            }
        }
        script
    }

    fn flow(&mut self, words: &[&str]) {
        let keys = Keys::of(words);
        let flow = SniffedFlowId(words[1].parse().unwrap_or_else(|_| panic!("{words:?}")));
        let mut r = SniffedFlowRow { flow, ..Default::default() };
        r.what = match words[2] {
            "begin" => FlowRowKind::Begin,
            "update" => FlowRowKind::Update,
            "fin" => FlowRowKind::Fin,
            "reset" => FlowRowKind::Reset,
            "forgotten" => FlowRowKind::Forgotten,
            "end" => FlowRowKind::CaptureEnd,
            w => panic!("{w}: not why a flow's row is written"),
        };
        r.at = mono(words[3].parse().unwrap_or_else(|_| panic!("{words:?}")));
        (r.client, r.client_port, r.family) = place(words[4]);
        (r.server, r.server_port, _) = place(words[5]);
        r.ip_protocol = keys.number("ip").unwrap_or(6) as u8;
        r.side = keys.number("side").map_or(SideHow::Handshake, |n| code(n, words));
        r.reset_by = code(keys.number("reset_by").unwrap_or(0), words);
        (r.syn, r.syn_ack, r.ack) = (keys.time("syn"), keys.time("synack"), keys.time("ack"));
        (r.packets, r.wire_bytes) = (keys.pair("packets"), keys.pair("wire"));
        (r.stream_bytes, r.missing_bytes) = (keys.pair("stream"), keys.pair("missing"));
        r.retransmitted = keys.pair("resent").map(|n| n as u32);
        r.reordered = keys.pair("reordered").map(|n| n as u32);
        r.zero_windows = keys.pair("zero").map(|n| n as u32);
        r.protocol = self.texts.intern(keys.0.get("protocol").unwrap_or(&""));
        r.reason = self.texts.intern(keys.0.get("reason").unwrap_or(&"").replace('_', " "));
        self.steps.push(Step::Flow(keys.number("source").unwrap_or(0) as u16, r));
    }

    fn exchange(&mut self, words: &[&str]) {
        let keys = Keys::of(words);
        let flow = SniffedFlowId(words[1].parse().unwrap_or_else(|_| panic!("{words:?}")));
        let mut r = SniffedExchangeRow { flow, ..Default::default() };
        r.what = match words[2] {
            "answered" => ExchangeKind::Answered,
            "unanswered" => ExchangeKind::Unanswered,
            "open" => ExchangeKind::Open,
            "no_reply" => ExchangeKind::NoReply,
            "unsolicited" => ExchangeKind::Unsolicited,
            "reply_only" => ExchangeKind::ReplyOnly,
            "reply_missed" => ExchangeKind::ReplyMissed,
            w => panic!("{w}: not what becomes of an exchange"),
        };
        r.at = mono(words[3].parse().unwrap_or_else(|_| panic!("{words:?}")));
        let said: Vec<&str> = words[4..].iter().copied().take_while(|w| w.find('=').is_none_or(|i| i == 0)).collect();
        r.protocol = self.texts.intern(said.first().unwrap_or(&""));
        r.verb = self.texts.intern(said.get(1).unwrap_or(&""));
        r.target = self.texts.intern(said.get(2..).unwrap_or_default().join(" "));
        let [request, reply] = keys.pair("bytes");
        r.request_start = keys.number("start").unwrap_or(self.steps.len() as u64 * 100_000);
        r.request_end = r.request_start + request;
        let has_reply = matches!(r.what, ExchangeKind::Answered | ExchangeKind::ReplyOnly);
        (r.reply_start, r.reply_end) = if has_reply { (0, reply) } else { (OPEN, OPEN) };
        (r.request_first, r.request_head) = (keys.time("first"), keys.time("head"));
        (r.reply_first, r.reply_head, r.reply_last) = (keys.time("rfirst"), keys.time("rhead"), keys.time("last"));
        r.status = keys.number("status").unwrap_or(0) as u16;
        r.failed = code(keys.number("failed").unwrap_or(u64::from(r.status >= 400)), words);
        r.missing_bytes = keys.number("missing").unwrap_or(0) as u32;
        self.steps.push(Step::Exchange(keys.number("source").unwrap_or(0) as u16, r));
    }

    /// Writes all rows as those of one host.
    pub fn write(&self, dir: &Path) -> Result<(), FolderError> {
        let host = HostInfo {
            hostname: "tap".into(),
            boot_id: "tap-1".into(),
            clock: MONOTONIC.into(),
            ..HostInfo::default()
        };
        let mut out = FolderWriter::create(dir, host, Options::default())?;
        out.push(&AnchorRow { at: mono(0), real_ns: WALL_NS, error_ns: 0, ..Default::default() });
        let mut last = mono(0);
        for step in &self.steps {
            let mut string = |id: &mut StrId| *id = out.intern(self.texts.get(*id).unwrap_or_default());
            match *step {
                Step::Flow(_, mut r) => {
                    string(&mut r.protocol);
                    string(&mut r.reason);
                    last = last.max(r.at);
                    out.push(&r);
                }
                Step::Exchange(_, mut r) => {
                    [&mut r.protocol, &mut r.verb, &mut r.target, &mut r.detail].into_iter().for_each(&mut string);
                    last = last.max(r.at);
                    out.push(&r);
                }
                Step::Lost(count) => out.push_loss(defect::PACKET_DROP, count, last, last),
                Step::Tick(at) => last = last.max(at),
            }
        }
        out.close().map(|_| ())
    }
}
