//! What an agent answers by HTTP.

use super::kept::{Asked, Keeper, around};
use super::state::{Origin, State, real_ns};
use super::window;
use crate::moment::Moment;
use crate::output;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wakepath_model::folder::write_archive;
use wakepath_ui::agent::{Agent, Refused, Writer};

/// Most alerts of one message.
const ALERTS_MAX: usize = 100;

/// Answers for an agent.
pub struct Service {
    pub state: Arc<State>,
    pub keeper: Arc<Keeper>,
    /// Where windows are made that are sent; empty when the agent starts.
    pub temporary: PathBuf,
    pub made: AtomicU64,
}

/// A folder that goes when it was sent.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(status: u16, why: impl Into<String>) -> Refused {
    Refused { status, why: why.into() }
}

impl Agent for Service {
    fn metrics(&self) -> String {
        self.state.metrics()
    }

    fn health(&self) -> (bool, String) {
        self.state.health()
    }

    fn about(&self) -> String {
        self.state.about()
    }

    fn window(&self, from: &str, to: &str) -> Result<Writer, Refused> {
        let time = window::time(&self.state, from, to).map_err(|e| refused(400, output::reasons(&e)))?;
        window::wait_for(&time);
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let made = Temporary(self.temporary.join(number.to_string()));
        let held = window::make(&self.state, time, &made.0).map_err(|e| refused(500, output::reasons(&e)))?;
        if held.segments == 0 {
            return Err(refused(404, "nothing of that time is in the ring; GET /v1/about says when it begins"));
        }
        Ok(Box::new(move |out| write_archive(&made.0, out)))
    }

    fn trigger(&self, question: &[u8]) -> Result<String, Refused> {
        let question: Value = match question {
            [] => Value::default(),
            text => serde_json::from_slice(text).map_err(|e| {
                refused(400, format!("{e}; send {{\"reason\": \"checkout is slow\", \"at\": \"-30s\"}}"))
            })?,
        };
        let now = i64::try_from(real_ns()).unwrap_or(i64::MAX);
        let at = match &question["at"] {
            Value::Null => now,
            Value::String(text) => match text.parse::<Moment>() {
                Ok(Moment::After(_)) => return Err(refused(400, "at: use -30s, 2026-11-21T04:55:12Z or nanoseconds")),
                Ok(moment) => moment.common_ns((now, now)),
                Err(e) => return Err(refused(400, format!("at: {e}"))),
            },
            _ => return Err(refused(400, "at: give a text, as \"-30s\" or \"2026-11-21T04:55:12Z\"")),
        };
        let at = u64::try_from(at).unwrap_or(0);
        let reason = question["reason"].as_str().unwrap_or("an operator asked").to_owned();
        let time = around(&self.state, at, at);
        let (name, is_new) =
            self.keeper.keep(Asked { origin: Origin::Operator, reason, moment: at..=at, time, key: String::new() })?;
        Ok(self.kept(&name, is_new).to_string())
    }

    fn alerts(&self, question: &[u8]) -> Result<String, Refused> {
        let message: Value = serde_json::from_slice(question).map_err(|e| refused(400, e.to_string()))?;
        let alerts =
            message["alerts"].as_array().ok_or_else(|| refused(400, "it has no alerts: is it Alertmanager's?"))?;
        let mut kept = Vec::new();
        for alert in alerts.iter().filter(|a| a["status"] != "resolved").take(ALERTS_MAX) {
            let at = |name: &str| {
                let time: jiff::Timestamp = alert[name].as_str()?.parse().ok()?;
                // Alertmanager's year 1 stands for "not yet"
                u64::try_from(time.as_nanosecond()).ok().filter(|ns| *ns > 0)
            };
            let Some(from) = at("startsAt") else { return Err(refused(400, "an alert without startsAt")) };
            let to = at("endsAt").unwrap_or(u64::MAX).max(from);
            let name = alert["labels"]["alertname"].as_str().unwrap_or("without a name");
            let time = around(&self.state, from, to);
            // an alert that goes on comes again and again, and is kept once
            let key = format!("{from} {}", alert["labels"]);
            let moment = from..=to.min(real_ns()).max(from);
            let asked = Asked { origin: Origin::Alert, reason: format!("alert {name}"), moment, time, key };
            let (name, is_new) = self.keeper.keep(asked)?;
            kept.push(self.kept(&name, is_new));
        }
        Ok(json!({ "kept": kept }).to_string())
    }
}

impl Service {
    fn kept(&self, name: &str, is_new: bool) -> Value {
        json!({ "name": name, "folder": self.state.config.kept_folder().join(name), "new": is_new })
    }
}
