//! Sending traces to a collector by OTLP, over HTTP or gRPC. Nothing is kept beside the batch that is on its way: what a collector
//! does not take, after some tries, is counted and dropped.

mod grpc;
mod http;

use crate::otlp;
use crate::trace::Trace;
use serde_json::Value;
use std::io;
use std::time::Duration;

/// Most spans sent together.
const SPANS_MAX: usize = 512;
/// A batch of so many bytes is sent: collectors take messages of 4 MiB, unless they are told otherwise.
const BYTES_MAX: usize = 1 << 20;
/// Most bytes of an answer that are read.
const ANSWER_MAX: usize = 1 << 20;
/// How often a batch is sent, where the collector asks for patience or is not there.
const TRIES: u32 = 4;
/// The pause before the second try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a collector may ask to wait. Of one that asks for more, the batch is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a collector may take to be connected to, to answer, and to end its answer.
const TIME_OUT: Duration = Duration::from_secs(10);

/// An address that cannot be sent to.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Not one that we can speak to.
    #[error(
        "{0:?}: give http://HOST[:PORT][/PATH] or grpc://HOST[:PORT]; where the collector wants TLS, send to one on this machine that forwards"
    )]
    Address(String),
    /// The collector refuses what it is sent.
    #[error("{address} answers {status}: {text}")]
    Refused {
        /// Where.
        address: String,
        /// Status of HTTP or gRPC.
        status: String,
        /// What it says.
        text: String,
    },
    /// It took nothing.
    #[error("{address}: {source}; is a collector listening there?")]
    NotThere {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

/// What became of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Spans that were taken.
    pub spans: u64,
    /// Spans that the collector said it did not take.
    pub rejected: u64,
    /// Spans that could not be delivered.
    pub dropped: u64,
}

/// How a collector is spoken to.
#[derive(Debug, PartialEq, Eq)]
enum Wire {
    /// JSON, to this path.
    Http(String),
    /// Protocol buffers.
    Grpc,
}

/// Sends traces.
pub struct Push {
    /// `HOST:PORT`.
    address: String,
    wire: Wire,
    /// Of JSON, the elements of a list with commas between.
    batch: Vec<u8>,
    spans: usize,
    sent: Sent,
    /// Why something was dropped first.
    first_failure: Option<PushError>,
    /// The batch before was given up: the next is tried once, or a collector that is gone would cost each batch all tries.
    is_down: bool,
}

/// What a collector answers.
enum Answer {
    /// Taken, but for so many spans.
    Taken(u64),
    /// Not taken.
    Refused {
        status: String,
        text: String,
        /// Whether the same may be sent again.
        is_later: bool,
        /// Not before so long.
        after: Option<Duration>,
    },
}

impl Answer {
    /// A status of HTTP that is no success.
    fn of_http(status: u16, text: String, after: Option<Duration>) -> Answer {
        Answer::Refused { status: status.to_string(), text, is_later: matches!(status, 429 | 502 | 503 | 504), after }
    }
}

/// What came of one try.
enum Try {
    Taken(u64),
    Later(PushError, Option<Duration>),
    Never(PushError),
}

impl Push {
    /// To a collector.
    ///
    /// # Errors
    /// Where the address is not one that we can speak to.
    pub fn new(url: &str) -> Result<Push, PushError> {
        let wrong = || PushError::Address(url.to_owned());
        let (rest, default) = match (url.strip_prefix("http://"), url.strip_prefix("grpc://")) {
            (Some(rest), _) => (rest, http::PORT),
            (_, Some(rest)) => (rest, grpc::PORT),
            _ => return Err(wrong()),
        };
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_plain = |s: &str| !s.bytes().any(|b| b.is_ascii_control() || b == b' ' || b == b'@');
        if host.is_empty() || !is_plain(host) || !is_plain(path) {
            return Err(wrong());
        }
        let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map(|(_, port)| port.parse::<u16>());
        let address = match port {
            Some(Ok(_)) => host.to_owned(),
            Some(Err(_)) => return Err(wrong()),
            None => format!("{host}:{default}"),
        };
        let wire = match (default, path) {
            (grpc::PORT, "/") => Wire::Grpc,
            (grpc::PORT, _) => return Err(wrong()),
            (_, "/") => Wire::Http("/v1/traces".into()),
            (_, path) => Wire::Http(path.into()),
        };
        Ok(Push {
            address,
            wire,
            batch: Vec::new(),
            spans: 0,
            sent: Sent::default(),
            first_failure: None,
            is_down: false,
        })
    }

    /// Sends a request, with others.
    pub fn add(&mut self, trace: &Trace) {
        match self.wire {
            Wire::Grpc => self.batch.extend_from_slice(otlp::protobuf(trace).bytes()),
            Wire::Http(_) => {
                let json = otlp::json(trace);
                for resource in json["resourceSpans"].as_array().map(Vec::as_slice).unwrap_or_default() {
                    self.add_json(resource);
                }
            }
        }
        self.spans += trace.spans.len();
        if self.spans >= SPANS_MAX || self.batch.len() >= BYTES_MAX {
            self.flush();
        }
    }

    fn add_json(&mut self, resource: &Value) {
        if !self.batch.is_empty() {
            self.batch.push(b',');
        }
        self.batch.extend_from_slice(resource.to_string().as_bytes());
    }

    /// Sends the rest; says what became of all, and why something was dropped, where it was.
    pub fn finish(mut self) -> (Sent, Option<PushError>) {
        self.flush();
        (self.sent, self.first_failure)
    }

    /// What became of what was sent so far; what was added since the last [`Push::flush`] is in none of it.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Why something was dropped first.
    pub fn failure(&self) -> Option<&PushError> {
        self.first_failure.as_ref()
    }

    /// Sends what was added.
    pub fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans) as u64;
        if spans == 0 {
            return;
        }
        let mut body = std::mem::take(&mut self.batch);
        if matches!(self.wire, Wire::Http(_)) {
            body = [br#"{"resourceSpans":["#.as_slice(), &body, b"]}"].concat();
        }
        let mut pause = PAUSE;
        let tries = if self.is_down { 1 } else { TRIES };
        for tried in 1..=tries {
            match self.attempt(&body) {
                Try::Taken(rejected) => {
                    self.is_down = false;
                    let rejected = rejected.min(spans);
                    self.sent.rejected += rejected;
                    self.sent.spans += spans - rejected;
                    return;
                }
                Try::Later(_, after) if tried < tries && after.is_none_or(|after| after <= PATIENCE) => {
                    std::thread::sleep(after.map_or(pause, |after| after.max(pause)));
                    pause *= 2;
                }
                Try::Later(why, _) | Try::Never(why) => {
                    self.is_down = true;
                    self.sent.dropped += spans;
                    self.first_failure.get_or_insert(why);
                    return;
                }
            }
        }
    }

    fn attempt(&self, body: &[u8]) -> Try {
        let answer = match &self.wire {
            Wire::Http(path) => http::exchange(&self.address, path, body),
            Wire::Grpc => grpc::exchange(&self.address, body),
        };
        match answer {
            Err(source) => Try::Later(PushError::NotThere { address: self.address.clone(), source }, None),
            Ok(Answer::Taken(rejected)) => Try::Taken(rejected),
            Ok(Answer::Refused { status, text, is_later, after }) => {
                let text = wakepath_present::text::sanitise(text.trim()).chars().take(200).collect();
                let refused = PushError::Refused { address: self.address.clone(), status, text };
                if is_later { Try::Later(refused, after) } else { Try::Never(refused) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_a_path() {
        let of = |url| Push::new(url).map(|p| (p.address, p.wire)).ok();
        let http = |address: &str, path: &str| Some((address.to_owned(), Wire::Http(path.into())));
        assert_eq!(of("http://otel"), http("otel:4318", "/v1/traces"));
        assert_eq!(of("http://[::1]/"), http("[::1]:4318", "/v1/traces"));
        assert_eq!(of("http://[::1]:80/a/b"), http("[::1]:80", "/a/b"));
        assert_eq!(of("grpc://otel"), Some(("otel:4317".into(), Wire::Grpc)));
        assert_eq!(of("grpc://[::1]:80/"), Some(("[::1]:80".into(), Wire::Grpc)));
        for wrong in [
            "https://otel",
            "otel:4318",
            "http://",
            "http://a:b/",
            "http://a b",
            "http://u@h/",
            "http://h/a\r\nX: y",
            "grpc://otel/v1/traces",
            "grpcs://otel",
        ] {
            assert!(of(wrong).is_none(), "{wrong:?}");
        }
    }
}
