//! What is counted of a service and of a kind, in a window and over all.

use crate::histogram::Histogram;
use std::borrow::Cow;
use wakepath_model::ids::MonoNs;
use wakepath_model::rows::{ExchangeKind, Failed, OPEN, SniffedExchangeRow};

/// Status codes told apart in one tally; the others are counted together.
const STATUSES_MAX: usize = 32;

/// What of a request's time is told. All begin with the request and end with its reply.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Last packet of the request's header to last packet of the reply's header: the service time of the SDN paper,
    /// section 4.
    pub head: Histogram,
    /// First packet of the request to first packet of the reply.
    pub first: Histogram,
    /// First packet of the request to last packet of the reply.
    pub last: Histogram,
}

/// How it went with requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered, and the reply says success.
    pub succeeded: u64,
    /// Answered: HTTP 4xx. The server did its work, the request was wrong.
    pub rejected: u64,
    /// Answered: HTTP 5xx, or the error of another protocol.
    pub failed: u64,
    /// Answered, and the reply says neither success nor failure, or that part of it was not read.
    pub outcome_unknown: u64,
    /// Of the answered ones: the reply's head was seen, and its end was still to come when the recording ended.
    pub reply_unfinished: u64,
    /// The flow ended, or was reset, before a reply.
    pub unanswered: u64,
    /// Requests that get no reply by their nature.
    pub no_reply: u64,
    /// Requests whose reply was not captured or could not be told.
    pub reply_missed: u64,
    /// Replies whose request was not captured or could not be determined.
    pub reply_only: u64,
    /// Messages that ask nothing and answer nothing.
    pub unsolicited: u64,
    /// Bytes of requests, as far as both ends are known.
    pub request_bytes: u64,
    /// Bytes of replies, likewise.
    pub reply_bytes: u64,
    /// Bytes of either that were never captured.
    pub missing_bytes: u64,
    /// Status codes and how often, in order.
    pub statuses: Vec<(u16, u64)>,
    /// Answers whose code found no room in `statuses`.
    pub other_statuses: u64,
    /// HTTP replies by class: 1xx to 5xx at 1 to 5, others at 0.
    pub classes: [u64; 6],
}

/// Counts and times of requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Counts.
    pub counts: Counts,
    /// Service times of answered requests.
    pub times: Times,
}

/// A time between two packets, where both were seen, and in that order.
fn between(from: MonoNs, to: MonoNs) -> Option<u64> {
    to.0.checked_sub(from.0).filter(|_| from.0 != 0)
}

/// Length of a byte range, where it is known.
fn length(start: u64, end: u64) -> u64 {
    if start == OPEN || end == OPEN { 0 } else { end.saturating_sub(start) }
}

impl Counts {
    fn add(&mut self, r: &SniffedExchangeRow, http: bool) {
        self.missing_bytes += u64::from(r.missing_bytes);
        match r.what {
            ExchangeKind::Answered => self.answered(r, http),
            ExchangeKind::Unanswered => self.unanswered += 1,
            ExchangeKind::NoReply => self.no_reply += 1,
            ExchangeKind::ReplyMissed => self.reply_missed += 1,
            ExchangeKind::ReplyOnly => self.reply_only += 1,
            _ => self.unsolicited += 1,
        }
        self.request_bytes += length(r.request_start, r.request_end);
        self.reply_bytes += length(r.reply_start, r.reply_end);
    }

    fn answered(&mut self, r: &SniffedExchangeRow, http: bool) {
        match (r.failed, http && (400..500).contains(&r.status)) {
            (Failed::No, _) => self.succeeded += 1,
            (Failed::Unknown, _) => self.outcome_unknown += 1,
            (_, true) => self.rejected += 1,
            (_, false) => self.failed += 1,
        }
        self.status(r.status, 1);
        if http {
            let class = usize::from(r.status / 100);
            self.classes[if class < self.classes.len() { class } else { 0 }] += 1;
        }
    }

    fn status(&mut self, status: u16, count: u64) {
        match self.statuses.binary_search_by_key(&status, |s| s.0) {
            Ok(i) => self.statuses[i].1 += count,
            Err(i) if self.statuses.len() < STATUSES_MAX => self.statuses.insert(i, (status, count)),
            Err(_) => self.other_statuses += count,
        }
    }

    fn merge(&mut self, other: &Counts) {
        let sums = [
            (&mut self.succeeded, other.succeeded),
            (&mut self.rejected, other.rejected),
            (&mut self.failed, other.failed),
            (&mut self.outcome_unknown, other.outcome_unknown),
            (&mut self.unanswered, other.unanswered),
            (&mut self.no_reply, other.no_reply),
            (&mut self.reply_missed, other.reply_missed),
            (&mut self.reply_only, other.reply_only),
            (&mut self.unsolicited, other.unsolicited),
            (&mut self.reply_unfinished, other.reply_unfinished),
            (&mut self.request_bytes, other.request_bytes),
            (&mut self.reply_bytes, other.reply_bytes),
            (&mut self.missing_bytes, other.missing_bytes),
            (&mut self.other_statuses, other.other_statuses),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum += more;
        }
        for &(status, count) in &other.statuses {
            self.status(status, count);
        }
    }

    /// Requests with a reply.
    pub fn answered_count(&self) -> u64 {
        self.succeeded + self.rejected + self.failed + self.outcome_unknown
    }

    /// Requests that are over: answered, or known to stay without an answer, or not known to have one.
    pub fn requests(&self) -> u64 {
        self.answered_count() + self.unanswered + self.no_reply + self.reply_missed
    }

    /// Of the requests whose outcome is known, the share that succeeded (SDN paper, section 4); `None` where there are none.
    pub fn success_rate(&self) -> Option<f64> {
        let known = self.succeeded + self.rejected + self.failed + self.unanswered;
        (known > 0).then(|| self.succeeded as f64 / known as f64)
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.requests() + self.reply_only + self.unsolicited == 0
    }
}

impl Tally {
    /// Adds an exchange that is not open any more. `http`: its codes are HTTP's.
    pub(super) fn add(&mut self, r: &SniffedExchangeRow, http: bool) {
        self.counts.add(r, http);
        if r.what != ExchangeKind::Answered {
            return;
        }
        let times = [
            (between(r.request_head, r.reply_head), &mut self.times.head),
            (between(r.request_first, r.reply_first), &mut self.times.first),
            (between(r.request_first, r.reply_last), &mut self.times.last),
        ];
        for (time, histogram) in times {
            if let Some(ns) = time {
                histogram.add(ns);
            }
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Tally) {
        self.counts.merge(&other.counts);
        self.times.head.merge(&other.times.head);
        self.times.first.merge(&other.times.first);
        self.times.last.merge(&other.times.last);
    }

    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts.statuses.clear();
        self.counts = Counts { statuses: std::mem::take(&mut self.counts.statuses), ..Counts::default() };
        self.times.head.clear();
        self.times.first.clear();
        self.times.last.clear();
    }

    /// How many requests were in service at once on average over `span_ns`: their times, added, by the span (Little's law).
    pub fn concurrency(&self, span_ns: u64) -> f64 {
        if span_ns == 0 { 0.0 } else { self.times.last.sum() as f64 / span_ns as f64 }
    }
}

/// What the network did to a service's flows. Pairs are by direction: to the server, to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Flows that were met, connections and exchanges of datagrams alike.
    pub flows: u64,
    /// Of them, refused: the server answered the SYN with RST.
    pub refused: u64,
    /// Resets by the client and by the server, without the refused.
    pub resets: [u64; 2],
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes of these packets on the wire, without the tunnels around them.
    pub wire_bytes: [u64; 2],
    /// Bytes of the streams, each counted once.
    pub stream_bytes: [u64; 2],
    /// Bytes of the streams that were never captured.
    pub missing_bytes: [u64; 2],
    /// Segments that repeated bytes.
    pub retransmitted: [u64; 2],
    /// Segments that came before bytes in front of them.
    pub reordered: [u64; 2],
    /// Times that this direction's sender was told a window of 0.
    pub zero_windows: [u64; 2],
}

/// What the network did to a service's flows.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Counts.
    pub counts: NetworkCounts,
    /// SYN to SYN-ACK: from where it was captured to the server and back.
    pub rtt_server: Histogram,
    /// SYN-ACK to the handshake's last ACK: from where it was captured to the client and back.
    pub rtt_client: Histogram,
}

impl NetworkCounts {
    /// Adds all of another.
    pub fn merge(&mut self, other: &NetworkCounts) {
        self.flows += other.flows;
        self.refused += other.refused;
        let pairs = [
            (&mut self.resets, other.resets),
            (&mut self.packets, other.packets),
            (&mut self.wire_bytes, other.wire_bytes),
            (&mut self.stream_bytes, other.stream_bytes),
            (&mut self.missing_bytes, other.missing_bytes),
            (&mut self.retransmitted, other.retransmitted),
            (&mut self.reordered, other.reordered),
            (&mut self.zero_windows, other.zero_windows),
        ];
        for (sum, more) in pairs {
            sum[0] += more[0];
            sum[1] += more[1];
        }
    }

    /// Whether it says more than that bytes went to and fro.
    pub fn is_troubled(&self) -> bool {
        let pairs =
            [self.resets, self.missing_bytes, self.retransmitted, self.reordered, self.zero_windows, [self.refused, 0]];
        pairs.iter().flatten().any(|&n| n > 0)
    }
}

impl Network {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Network) {
        self.counts.merge(&other.counts);
        self.rtt_server.merge(&other.rtt_server);
        self.rtt_client.merge(&other.rtt_client);
    }

    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counts = NetworkCounts::default();
        self.rtt_server.clear();
        self.rtt_client.clear();
    }
}

/// A distribution of times in numbers, ns. Percentiles are at most 1.6 % off, the others are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many times.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: u64,
    /// The median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl From<&Histogram> for Spread {
    fn from(h: &Histogram) -> Spread {
        Spread {
            count: h.count(),
            min: h.min(),
            mean: h.mean(),
            p50: h.quantile(0.5),
            p95: h.quantile(0.95),
            p99: h.quantile(0.99),
            max: h.max(),
        }
    }
}

/// A closed tally with one that is still counted, without a copy where one of them is empty.
pub(super) fn both<'a>(closed: &'a Tally, counting: &'a Tally) -> Cow<'a, Tally> {
    match (closed.counts.is_empty(), counting.counts.is_empty()) {
        (_, true) => Cow::Borrowed(closed),
        (true, _) => Cow::Borrowed(counting),
        _ => {
            let mut sum = closed.clone();
            sum.merge(counting);
            Cow::Owned(sum)
        }
    }
}
