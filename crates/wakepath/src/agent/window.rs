//! Times of the ring as folders: for triggers, and for who asks by HTTP.

use super::state::{State, real_ns};
use crate::moment::Moment;
use anyhow::{Result, bail};
use serde_json::Value;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use wakepath_model::folder::{Window, window};
use wakepath_ui::client::Client;

/// After so long what a recorder saw is on the disk: its batch, and what it leaves in the rings for a moment.
const SETTLE_NS: u64 = 400_000_000;
/// A time that ends later is not waited for.
const FUTURE_MAX_NS: u64 = 10_000_000_000;

/// Waits until all of a time is on the disk, as far as it is in the near future.
pub fn wait_for(time: &RangeInclusive<u64>) {
    let wait = time.end().saturating_add(SETTLE_NS).saturating_sub(real_ns());
    std::thread::sleep(Duration::from_nanos(wait.min(FUTURE_MAX_NS + SETTLE_NS)));
}

/// Makes a folder of a time of the ring.
pub fn make(state: &State, time: RangeInclusive<u64>, out: &Path) -> Result<Window> {
    Ok(window(&state.config.ring_folder(), time, out)?)
}

/// A time as a question gives it: RFC 3339, nanoseconds since 1970, or `-5m` before now.
pub fn time(state: &State, from: &str, to: &str) -> Result<RangeInclusive<u64>> {
    let now = i64::try_from(real_ns()).unwrap_or(i64::MAX);
    let read = |name: &str, text: &str| -> Result<u64> {
        let moment: Moment = text.parse().map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        if let Moment::After(_) = moment {
            bail!(
                "{name}: {text} counts from a recording's start, and an agent's has none; use -5m or 2026-11-21T04:55:12Z"
            );
        }
        Ok(u64::try_from(moment.common_ns((now, now))).unwrap_or(0))
    };
    let (from, to) = (read("from", from)?, read("to", to)?);
    let longest = state.config.kept.longest.0;
    if from > to {
        bail!("from is after to");
    }
    if to - from > longest {
        bail!("the time is longer than kept.longest, {} s; ask for less", longest / 1_000_000_000);
    }
    if to > real_ns().saturating_add(FUTURE_MAX_NS) {
        bail!("to is in the future");
    }
    Ok(from..=to)
}

/// How far an agent's clock is ahead of ours, and how far that may be off (ns): its answer was made between question and answer.
pub fn clock_ahead_ns(client: &Client) -> io::Result<(i64, u64)> {
    let before = real_ns();
    let answer = client.get("/v1/about")?;
    let status = answer.status;
    let text = answer.text()?;
    let after = real_ns();
    if status != 200 {
        return Err(io::Error::other(error_of(status, &text)));
    }
    let about: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(there) = about["real_ns"].as_u64() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "what answers there is no agent"));
    };
    let error = after.saturating_sub(before) / 2;
    Ok((there as i64 - (before + error) as i64, error))
}

/// What an agent says of a question that it refuses.
pub fn error_of(status: u16, text: &str) -> String {
    let said: Value = serde_json::from_str(text).unwrap_or_default();
    match said["error"].as_str() {
        Some(why) => why.chars().filter(|c| !c.is_control()).take(300).collect(),
        None => format!("it answers with status {status}"),
    }
}
