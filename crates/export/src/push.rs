//! Sending traces to a collector by OTLP over HTTP, in JSON. Nothing is kept beside the batch that is on its way: what a collector
//! does not take, after some tries, is counted and dropped.

use crate::otlp;
use crate::trace::Trace;
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// Port of OTLP over HTTP.
const PORT: u16 = 4318;
/// Most spans sent together.
const SPANS_MAX: usize = 512;
/// Most bytes of an answer that are read.
const ANSWER_MAX: u64 = 1 << 20;
/// How often a batch is sent, where the collector asks for patience or is not there.
const TRIES: u32 = 4;
/// The pause before the second try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a collector may be silent.
const TIME_OUT: Duration = Duration::from_secs(10);

/// An address that cannot be sent to.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// Not one that we can speak to.
    #[error(
        "{0:?}: give http://HOST[:PORT][/PATH]; where the collector wants TLS, send to one on this machine that forwards"
    )]
    Address(String),
    /// The collector refuses what it is sent.
    #[error("{address} answers {status}: {text}")]
    Refused {
        /// Where.
        address: String,
        /// Status of HTTP.
        status: u16,
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

/// Sends traces.
pub struct Push {
    /// `HOST:PORT`.
    address: String,
    path: String,
    batch: Vec<Value>,
    spans: usize,
    sent: Sent,
    /// Why something was dropped first.
    first_failure: Option<PushError>,
}

/// What came of one try.
enum Try {
    Taken(u64),
    Later(PushError),
    Never(PushError),
}

impl Push {
    /// To a collector.
    pub fn new(url: &str) -> Result<Push, PushError> {
        let wrong = || PushError::Address(url.to_owned());
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_plain = |s: &str| !s.bytes().any(|b| b.is_ascii_control() || b == b' ' || b == b'@');
        if host.is_empty() || !is_plain(host) || !is_plain(path) {
            return Err(wrong());
        }
        let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map(|(_, port)| port.parse::<u16>());
        let address = match port {
            Some(Ok(_)) => host.to_owned(),
            Some(Err(_)) => return Err(wrong()),
            None => format!("{host}:{PORT}"),
        };
        let path = if path == "/" { "/v1/traces" } else { path }.to_owned();
        Ok(Push { address, path, batch: Vec::new(), spans: 0, sent: Sent::default(), first_failure: None })
    }

    /// Sends a request, with others.
    pub fn add(&mut self, trace: &Trace) {
        if let Value::Object(mut request) = otlp::json(trace)
            && let Some(Value::Array(resources)) = request.remove("resourceSpans")
        {
            self.batch.extend(resources);
            self.spans += trace.spans.len();
        }
        if self.spans >= SPANS_MAX {
            self.flush();
        }
    }

    /// Sends the rest; says what became of all, and why something was dropped, where it was.
    pub fn finish(mut self) -> (Sent, Option<PushError>) {
        self.flush();
        (self.sent, self.first_failure)
    }

    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans) as u64;
        if spans == 0 {
            return;
        }
        let body = json!({ "resourceSpans": std::mem::take(&mut self.batch) }).to_string();
        let mut pause = PAUSE;
        for tried in 1..=TRIES {
            match self.attempt(&body) {
                Try::Taken(rejected) => {
                    let rejected = rejected.min(spans);
                    self.sent.rejected += rejected;
                    self.sent.spans += spans - rejected;
                    return;
                }
                Try::Later(_) if tried < TRIES => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                Try::Later(why) | Try::Never(why) => {
                    self.sent.dropped += spans;
                    self.first_failure.get_or_insert(why);
                    return;
                }
            }
        }
    }

    fn attempt(&self, body: &str) -> Try {
        let not_there = |source| Try::Later(PushError::NotThere { address: self.address.clone(), source });
        match self.exchange(body) {
            Err(source) => not_there(source),
            Ok((200..=299, text)) => Try::Taken(rejected(&text)),
            Ok((status, text)) => {
                let text = wakepath_present::text::sanitise(text.trim()).chars().take(200).collect();
                let refused = PushError::Refused { address: self.address.clone(), status, text };
                if matches!(status, 429 | 502 | 503 | 504) { Try::Later(refused) } else { Try::Never(refused) }
            }
        }
    }

    /// Sends a body; gives the status and what was answered.
    fn exchange(&self, body: &str) -> io::Result<(u16, String)> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIME_OUT) {
                Ok(stream) => return self.exchange_on(stream, body),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn exchange_on(&self, mut stream: TcpStream, body: &str) -> io::Result<(u16, String)> {
        stream.set_read_timeout(Some(TIME_OUT))?;
        stream.set_write_timeout(Some(TIME_OUT))?;
        write!(
            stream,
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}/{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.path,
            self.address,
            crate::SCOPE,
            env!("CARGO_PKG_VERSION"),
            body.len(),
        )?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.strip_prefix("HTTP/1.").and_then(|a| a.get(2..5)).and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP's"))?;
        let text = answer.split_once("\r\n\r\n").map_or("", |(_, text)| text);
        Ok((status, text.to_owned()))
    }
}

/// How many spans the collector says that it did not take. Its answer may come in chunks: what matters is between its braces.
fn rejected(text: &str) -> u64 {
    let within = text.find('{').zip(text.rfind('}')).and_then(|(a, b)| text.get(a..=b)).unwrap_or("{}");
    let answer: Value = serde_json::from_str(within).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    rejected.as_u64().or_else(|| rejected.as_str().and_then(|s| s.parse().ok())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_a_path() {
        let of = |url| Push::new(url).map(|p| (p.address, p.path)).ok();
        assert_eq!(of("http://otel"), Some(("otel:4318".into(), "/v1/traces".into())));
        assert_eq!(of("http://[::1]/"), Some(("[::1]:4318".into(), "/v1/traces".into())));
        assert_eq!(of("http://[::1]:80/a/b"), Some(("[::1]:80".into(), "/a/b".into())));
        for wrong in
            ["https://otel", "otel:4318", "http://", "http://a:b/", "http://a b", "http://u@h/", "http://h/a\r\nX: y"]
        {
            assert!(of(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn what_was_rejected_is_read() {
        assert_eq!(rejected(""), 0);
        assert_eq!(rejected("{}"), 0);
        assert_eq!(rejected(r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"no"}}"#), 7);
        assert_eq!(rejected("2f\r\n{\"partialSuccess\":{\"rejectedSpans\":3}}\r\n0\r\n"), 3);
    }
}
