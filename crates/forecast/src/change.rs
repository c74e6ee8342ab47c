//! What is to be changed, as `--change` says it (`docs/changes.md`), and changing a model so.
//!
//! A change names things as `bottleneck` and `requests` print them. It does all of what it says or, where the model has
//! nothing that it could change, nothing: then the refusal says why, which events are missing, and what can be named.

mod calls;
mod jobs;
mod machines;
mod names;
mod parse;
mod serving;

pub use parse::{ParseError, VERBS};

use crate::derived::Model;
use std::fmt;

/// A number of servers, workers, tokens, or items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many more; negative = fewer.
    By(f64),
    /// So many.
    To(f64),
    /// So many times as many.
    Times(f64),
    /// As many as anybody wants.
    Unbounded,
}

/// What becomes of a link's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bandwidth {
    /// So many times as much.
    Times(f64),
    /// So many bits a second.
    Bits(f64),
    /// Bytes take no time on it.
    Unbounded,
}

/// What becomes of a link's delay, each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// So many times as long.
    Times(f64),
    /// So much longer (ns); negative = shorter, at least 0.
    By(i64),
    /// So long (ns).
    To(u64),
}

/// Which of the calls of a name are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    /// All.
    All,
    /// So many of a hundred, evenly.
    Percent(f64),
    /// All but the first so many of each request's visit that makes them.
    Beyond(u32),
}

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `scale HOST/PROCESS/STATE=0.5`: the work of these states takes so many times as long.
    Scale {
        /// A host, or the name of processors.
        host: String,
        /// A process or service.
        process: String,
        /// `cpu`, `disk`, `timer`, `lock`, `outside`, or as annotated.
        state: String,
        /// Times as long.
        factor: f64,
    },
    /// `cpu NAME=+1`: processors.
    Cpu {
        /// A host, a service, or the name of processors.
        of: String,
        /// How many.
        to: Amount,
    },
    /// `speed NAME=2x`: processors or a disk so many times as fast.
    Speed {
        /// A host, a service, or the name of processors or of a disk.
        of: String,
        /// Times as fast.
        factor: f64,
    },
    /// `link A-B bandwidth=10x delay=-50%`.
    Link {
        /// Its two ends, as they are named: hosts or services.
        between: String,
        /// What becomes of its bandwidth.
        bandwidth: Option<Bandwidth>,
        /// What becomes of its delay.
        delay: Option<Delay>,
    },
    /// `queue NAME=+N`: room.
    Queue {
        /// Which.
        name: String,
        /// How much.
        to: Amount,
    },
    /// `workers NAME=+N`.
    Workers {
        /// Of which service.
        of: String,
        /// How many.
        to: Amount,
    },
    /// `threads NAME=+N`: threads of the processes that there are.
    Threads {
        /// Of which service.
        of: String,
        /// How many, in all processes together.
        to: Amount,
    },
    /// `processes NAME=+N`: processes with as many threads each as now.
    Processes {
        /// Of which service.
        of: String,
        /// How many.
        to: Amount,
    },
    /// `pool NAME=+N`.
    Pool {
        /// Which.
        name: String,
        /// How many tokens.
        to: Amount,
    },
    /// `drop SPAN`: a call is not made any more.
    Drop {
        /// What is asked for.
        span: String,
        /// Which of them.
        which: Which,
    },
    /// `parallel A,B`: calls of one visit are made at once.
    Parallel {
        /// What is asked for; one name = all its repeats.
        spans: Vec<String>,
    },
    /// `cache SPAN hit=90%`: so many of a hundred calls are answered at once by whoever makes them.
    Cache {
        /// What is asked for.
        span: String,
        /// Of a hundred.
        hit: f64,
    },
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// What is different now, a clause each: `workers of gunicorn:8000: 1 → 2`.
    pub done: Vec<String>,
    /// What it takes for granted, a sentence each.
    pub assumptions: Vec<String>,
}

/// Why a change cannot be made in this model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The change.
    pub change: String,
    /// Why, as one sentence.
    pub reason: String,
    /// What was not recorded, and how it is, a sentence each.
    pub missing: Vec<String>,
    /// What such a change can name here, the nearest first.
    pub near: Vec<String>,
}

/// Most names that a refusal lists.
const NEAR_MAX: usize = 12;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--change '{}' is refused: {}", self.change, self.reason)?;
        for sentence in &self.missing {
            write!(f, "\n  Not seen: {sentence}")?;
        }
        if !self.near.is_empty() {
            write!(f, "\n  What can be named here:")?;
            for name in self.near.iter().take(NEAR_MAX) {
                write!(f, "\n    {name}")?;
            }
            if self.near.len() > NEAR_MAX {
                write!(f, "\n    … and {} more", self.near.len() - NEAR_MAX)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Makes a change. A refused one leaves the model as it was.
pub fn apply(change: &Change, model: &mut Model) -> Result<Effect, Refusal> {
    let before = model.clone();
    let made = match model {
        Model::Jobs(jobs) => jobs::apply(change, jobs),
        Model::Machines(system) => machines::apply(change, system),
    };
    let made = made.and_then(|effect| match *model == before {
        true => Err(No::because(format!("it changes nothing ({})", effect.done.join("; ")))),
        false => Ok(effect),
    });
    if made.is_err() {
        *model = before;
    }
    made.map_err(|no| Refusal { change: change.to_string(), reason: no.reason, missing: no.missing, near: no.near })
}

/// A refusal on its way: the change is added by [`apply`].
#[derive(Debug)]
struct No {
    reason: String,
    missing: Vec<String>,
    near: Vec<String>,
}

impl No {
    fn because(reason: impl Into<String>) -> No {
        No { reason: reason.into(), missing: Vec::new(), near: Vec::new() }
    }

    fn missing(mut self, sentences: &[String]) -> No {
        self.missing.extend_from_slice(sentences);
        self
    }

    fn near(mut self, names: Vec<String>) -> No {
        self.near = names;
        self
    }
}

impl Amount {
    /// The number that it makes of `now`; `None` = without bound. Never below 0.
    fn of(self, now: f64) -> Option<f64> {
        match self {
            Amount::By(more) => Some((now + more).max(0.0)),
            Amount::To(number) => Some(number),
            Amount::Times(factor) => Some(now * factor),
            Amount::Unbounded => None,
        }
    }

    /// The same of whole things: rounded; `None` = without bound. Refused where fewer than `least` would be left.
    fn whole(self, what: &str, now: f64, least: u64) -> Result<Option<u64>, No> {
        let then = self.of(now).map(f64::round);
        if let Amount::By(more) = self
            && now + more < least as f64
        {
            return Err(No::because(format!(
                "there are {} {what}, and {} less are not at least {least}",
                number(now),
                number(-more)
            )));
        }
        match then {
            Some(n) if n < least as f64 => Err(No::because(format!("at least {least} {what} must be left"))),
            then => Ok(then.map(|n| n as u64)),
        }
    }
}

/// A number as people write it.
fn number(n: f64) -> String {
    if n.is_infinite() { "unbounded".into() } else { format!("{}", (n * 1000.0).round() / 1000.0) }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::By(n) => write!(f, "{n:+}"),
            Amount::To(n) => write!(f, "{n}"),
            Amount::Times(n) => write!(f, "{n}x"),
            Amount::Unbounded => f.write_str("unbounded"),
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bandwidth::Times(n) => write!(f, "{n}x"),
            Bandwidth::Bits(n) => write!(f, "{n}bit"),
            Bandwidth::Unbounded => f.write_str("unbounded"),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Times(n) => write!(f, "{n}x"),
            Delay::By(ns) => write!(f, "{ns:+}ns"),
            Delay::To(ns) => write!(f, "{ns}ns"),
        }
    }
}

impl fmt::Display for Change {
    /// In the grammar: parsed, it is the same change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use parse::quoted;
        match self {
            Change::Scale { host, process, state, factor } => {
                write!(f, "scale {}={factor}", quoted(&format!("{host}/{process}/{state}")))
            }
            Change::Cpu { of, to } => write!(f, "cpu {}={to}", quoted(of)),
            Change::Speed { of, factor } => write!(f, "speed {}={factor}x", quoted(of)),
            Change::Link { between, bandwidth, delay } => {
                write!(f, "link {}", quoted(between))?;
                bandwidth.map_or(Ok(()), |b| write!(f, " bandwidth={b}"))?;
                delay.map_or(Ok(()), |d| write!(f, " delay={d}"))
            }
            Change::Queue { name, to } => write!(f, "queue {}={to}", quoted(name)),
            Change::Workers { of, to } => write!(f, "workers {}={to}", quoted(of)),
            Change::Threads { of, to } => write!(f, "threads {}={to}", quoted(of)),
            Change::Processes { of, to } => write!(f, "processes {}={to}", quoted(of)),
            Change::Pool { name, to } => write!(f, "pool {}={to}", quoted(name)),
            Change::Drop { span, which } => {
                write!(f, "drop {}", quoted(span))?;
                match which {
                    Which::All => Ok(()),
                    Which::Percent(p) => write!(f, " share={p}%"),
                    Which::Beyond(n) => write!(f, " keep={n}"),
                }
            }
            Change::Parallel { spans } => {
                let spans: Vec<_> = spans.iter().map(|s| quoted(s)).collect();
                write!(f, "parallel {}", spans.join(","))
            }
            Change::Cache { span, hit } => write!(f, "cache {} hit={hit}%", quoted(span)),
        }
    }
}
