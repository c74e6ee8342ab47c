//! `agent://HOST:PORT` in place of a folder: a time of an agent's ring, fetched into a folder of the user's cache.

use super::config::read_token;
use super::state::real_ns;
use super::window::{clock_ahead_ns, error_of};
use crate::cli::AskAgents;
use crate::output::tell;
use crate::progress;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wakepath_model::folder::read_archive;
use wakepath_present::units;
use wakepath_ui::client::Client;

/// How such a word begins.
const SCHEME: &str = "agent://";
/// An agent's port, where the word has none.
const PORT: u16 = 7412;
/// Times that were fetched longer ago are removed.
const CACHED: Duration = Duration::from_secs(24 * 3600);
/// How long to wait for each next part of an answer: the agent may first wait until the time is over.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a whole time may take.
const LIMIT: Duration = Duration::from_secs(600);
/// Most bytes of it.
const BYTES_MAX: u64 = 16 << 30;

/// Whether a word of a command line names an agent.
fn is_agent(word: &OsString) -> bool {
    word.to_str().is_some_and(|w| w.starts_with(SCHEME))
}

/// The command line with a folder in place of each agent; `None` where it names none.
///
/// # Errors
/// If an agent cannot be asked, or has nothing of that time.
pub fn fetched(line: Vec<OsString>, how: &AskAgents) -> Result<Option<Vec<OsString>>> {
    // what comes after `--` is another command's
    let own = line.iter().position(|w| w == "--").unwrap_or(line.len());
    if !line[1..own.max(1)].iter().any(is_agent) {
        return Ok(None);
    }
    let now = i64::try_from(real_ns()).unwrap_or(i64::MAX);
    let [from, to] = [how.since, how.until].map(|m| u64::try_from(m.common_ns((now, now))).unwrap_or(0));
    if from > to {
        bail!("--since is after --until");
    }
    let token = match (&how.token_file, std::env::var("WAKEPATH_TOKEN")) {
        (Some(file), _) => Some(read_token(file)?),
        (None, Ok(token)) if !token.is_empty() => Some(token),
        _ => None,
    };
    let cache = cache()?;
    let mut out = Vec::new();
    for (i, word) in line.into_iter().enumerate() {
        match word.to_str().filter(|_| i > 0 && i < own && is_agent(&word)) {
            Some(text) => out.push(fetch(text, (from, to), &token, &cache)?.into_os_string()),
            None => out.push(word),
        }
    }
    Ok(Some(out))
}

/// HOST:PORT of a word.
fn address(word: &str) -> Result<String> {
    let rest = word.strip_prefix(SCHEME).unwrap_or(word).trim_end_matches('/');
    if rest.is_empty() || rest.contains(['/', '?', '#', '@', ' ']) || rest.chars().any(char::is_control) {
        bail!("{word}: give an agent as {SCHEME}HOST:PORT, and the time by --since and --until");
    }
    let has_port =
        rest.rsplit_once(':').is_some_and(|(host, port)| port.parse::<u16>().is_ok() && !host.ends_with(':'));
    Ok(if has_port { rest.to_owned() } else { format!("{rest}:{PORT}") })
}

fn fetch(word: &str, (from, to): (u64, u64), token: &Option<String>, cache: &Path) -> Result<PathBuf> {
    let address = address(word)?;
    let plain: String =
        address.chars().map(|c| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' }).collect();
    let dir = cache.join(format!("{plain}-{from}-{to}"));
    if dir.join("wakepath.json").exists() {
        return Ok(dir);
    }
    let client = Client { address, token: token.clone(), patience: PATIENCE, limit: LIMIT };
    let hint = || match token {
        None => format!("{word} (if it asks for a token: --token-file FILE or WAKEPATH_TOKEN)"),
        Some(_) => word.to_owned(),
    };
    let ahead = clock_ahead_ns(&client).with_context(hint)?.0;
    let at = |ns: u64| ns.saturating_add_signed(ahead);
    let mut answer = client.get(&format!("/v1/window?from={}&to={}", at(from), at(to))).with_context(hint)?;
    if answer.status != 200 {
        let status = answer.status;
        bail!("{}: {}", hint(), error_of(status, &answer.text()?));
    }
    let coming = cache.join(format!(".{plain}-{from}-{to}.{}", std::process::id()));
    let _ = fs::remove_dir_all(&coming);
    let bar = progress::of_bytes("fetching", None)?;
    let read = read_archive(answer.body(), &coming, BYTES_MAX, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(e) => {
            let _ = fs::remove_dir_all(&coming);
            return Err(anyhow::Error::new(e).context(hint()));
        }
    };
    fs::rename(&coming, &dir).with_context(|| dir.display().to_string())?;
    tell!("wakepath: fetched {} of {word} into {}", units::bytes(bytes), dir.display());
    Ok(dir)
}

/// Where fetched times are; those of long ago are removed.
fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let cache = base.context("no folder for what is fetched: set HOME or XDG_CACHE_HOME")?.join("wakepath/agents");
    super::make_dir(&cache)?;
    for entry in fs::read_dir(&cache)?.flatten() {
        let is_old = |at: std::time::SystemTime| at.elapsed().is_ok_and(|age| age > CACHED);
        if entry.metadata().and_then(|m| m.modified()).is_ok_and(is_old) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_by_host_and_port() {
        for (word, wanted) in [
            ("agent://web:7000", "web:7000"),
            ("agent://web", "web:7412"),
            ("agent://10.0.0.2/", "10.0.0.2:7412"),
            ("agent://[::1]:7000", "[::1]:7000"),
            ("agent://[::1]", "[::1]:7412"),
        ] {
            assert_eq!(address(word).ok().as_deref(), Some(wanted), "{word}");
        }
        for word in ["agent://", "agent://web/x", "agent://web?x", "agent://a@b", "agent://a b"] {
            assert!(address(word).is_err(), "{word}");
        }
    }
}
