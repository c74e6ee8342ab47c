//! An agent by its configuration: does it answer and record, has it room, do its peers answer, and what time have they.

use super::{check, check_to_do};
use crate::agent::config::Config;
use crate::agent::usage;
use crate::agent::window::{clock_ahead_ns, error_of};
use crate::output;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use wakepath_present::doctor::{Check, Trial, Vantage, Verdict};
use wakepath_present::units;
use wakepath_ui::client::Client;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clocks that differ by more are pointed out (ns).
const CLOCK_NS: u64 = 1_000_000_000;

/// Looks and asks.
pub fn vantage(file: &Path) -> Vantage {
    let checks = match Config::read(file).and_then(|config| Ok((config.token()?, config))) {
        Ok((token, config)) => {
            let found = format!("{}: every setting can be", file.display());
            let mut checks = vec![check("agent.config", "configuration", Verdict::Yes, found)];
            checks.push(answers(&config, token.clone()));
            checks.extend(room(&config));
            checks.extend(config.peers.iter().map(|p| peer(p, token.clone())));
            checks
        }
        Err(e) => vec![check_to_do(
            "agent.config",
            "configuration",
            Verdict::No,
            output::reasons(&e),
            format!("Correct it, and check it: wakepath agent --config {} --check", file.display()),
        )],
    };
    let works = checks.iter().all(|c| c.verdict != Verdict::No);
    let summary =
        if works { "The agent answers and records." } else { "The agent does not do all that its configuration says." };
    Vantage {
        vantage: "agent",
        works,
        summary: summary.into(),
        backend: None,
        trial: Trial::default(),
        checks,
        tracepoints: Vec::new(),
        capabilities: Vec::new(),
    }
}

fn client(address: String, token: Option<String>) -> Client {
    Client { address, token, patience: PATIENCE, limit: PATIENCE }
}

/// The agent at its own address.
fn answers(config: &Config, token: Option<String>) -> Check {
    let (id, title) = ("agent.answers", "agent");
    let at = config.http.listen;
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, at.port()).to_string();
    let asked = client(address.clone(), token).get("/v1/about").and_then(|a| Ok((a.status, a.text()?)));
    let (status, text) = match asked {
        Ok(answer) => answer,
        Err(e) => {
            let remedy = "Start it: systemctl start wakepath-agent";
            return check_to_do(id, title, Verdict::No, format!("{address} does not answer: {e}"), remedy);
        }
    };
    if status != 200 {
        let remedy = "Restart the agent after a change of its configuration or token.";
        return check_to_do(id, title, Verdict::No, format!("{address}: {}", error_of(status, &text)), remedy);
    }
    let about: Value = serde_json::from_str(&text).unwrap_or_default();
    if about["recording"] != true {
        let found = format!("{address} answers, and does not record");
        return check_to_do(id, title, Verdict::No, found, "Read what it says: journalctl -u wakepath-agent");
    }
    let lowered: Vec<&str> = about["lowered"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if lowered.is_empty() {
        return check(id, title, Verdict::Yes, format!("{address} answers and records, with all detail"));
    }
    let found = format!("{address} answers and records, without {} to stay in budget", lowered.join(", "));
    check_to_do(id, title, Verdict::Limit, found, "Raise budget.memory or budget.processor, or select fewer processes.")
}

/// Whether ring and kept folders find room.
fn room(config: &Config) -> Option<Check> {
    let folder = config.folder.ancestors().find(|f| f.exists())?;
    let (left, all) = usage::disk(folder)?;
    let wanted = config.ring.max_bytes.0.saturating_add(config.kept.max_bytes.0);
    let held = [config.ring_folder(), config.kept_folder()].iter().map(|f| held(f)).sum::<u64>();
    let found = format!(
        "{} left of {} at {}; ring and kept folders have {} and may have {}",
        units::bytes(left),
        units::bytes(all),
        folder.display(),
        units::bytes(held),
        units::bytes(wanted)
    );
    Some(if left.saturating_add(held) >= wanted {
        check("agent.disk", "disk", Verdict::Yes, found)
    } else {
        let remedy = "Free space, or lower ring.max_bytes and kept.max_bytes.";
        check_to_do("agent.disk", "disk", Verdict::Limit, found, remedy)
    })
}

/// Bytes of files in a folder and below.
fn held(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |e: std::fs::DirEntry| match e.metadata() {
        Ok(about) if about.is_dir() => held(&e.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// A peer, and its clock.
fn peer(address: &str, token: Option<String>) -> Check {
    let (id, title) = ("agent.peer", format!("peer {address}"));
    match clock_ahead_ns(&client(address.to_owned(), token)) {
        Ok((ahead, error)) => {
            let far = ahead.unsigned_abs();
            let sign = if ahead < 0 { "behind" } else { "ahead" };
            let found =
                format!("answers; its clock is {} {sign}, within {}", units::duration(far), units::duration(error));
            if far <= error.max(CLOCK_NS) {
                return check(id, &title, Verdict::Yes, found);
            }
            let remedy = "Triggers allow for it. To compare times, run `wakepath sync` on kept folders, or set the clocks by NTP.";
            check_to_do(id, &title, Verdict::Limit, found, remedy)
        }
        Err(e) => {
            let remedy =
                "Check its address, its token, and firewalls. Until then its parts are missing in what triggers keep.";
            check_to_do(id, &title, Verdict::No, format!("does not answer: {e}"), remedy)
        }
    }
}
