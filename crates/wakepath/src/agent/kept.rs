//! What triggers keep: the segments around a time, of this host and of its peers, as a folder of its own.

use super::state::{Origin, State, real_ns};
use super::window;
use crate::output::{self, tell};
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wakepath_model::folder::{Kept, KeptPart, PartState, adopt, describe_kept, read_archive, read_kept, segment_bytes};
use wakepath_ui::agent::Refused;
use wakepath_ui::client::Client;

/// Times that are fetched at the same moment.
const AT_ONCE: usize = 8;
/// New times a minute.
const A_MINUTE: usize = 30;
/// How many of those that were kept are remembered, so that none is kept twice.
const REMEMBERED: usize = 256;
/// How long to wait for a peer's connection and for each next part of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of one peer's part.
const PART_BYTES_MAX: u64 = 4 << 30;
/// Longest text of a reason.
const REASON_CHARS: usize = 200;

/// What is to be kept.
#[derive(Clone, Debug)]
pub struct Asked {
    pub origin: Origin,
    /// For people.
    pub reason: String,
    /// What it is about, ns since 1970.
    pub moment: RangeInclusive<u64>,
    /// What is kept of it: that, and what is around it.
    pub time: RangeInclusive<u64>,
    /// The same again is not kept again, whatever its moment; empty if only that counts.
    pub key: String,
}

/// Keeps what is asked for, and knows what it keeps.
pub struct Keeper {
    state: Arc<State>,
    token: Option<String>,
    recent: Mutex<VecDeque<Recent>>,
    running: Arc<AtomicUsize>,
}

struct Recent {
    began: Instant,
    name: String,
    time: RangeInclusive<u64>,
    key: String,
}

impl Recent {
    fn has(&self, asked: &Asked) -> bool {
        let is_same = !asked.key.is_empty() && self.key == asked.key;
        is_same || self.time.contains(asked.moment.start()) && self.time.contains(asked.moment.end())
    }
}

impl Keeper {
    /// Takes up what is kept already; what an agent that was killed left half made is removed, or said to be missing.
    ///
    /// # Errors
    /// If the folder cannot be made or listed.
    pub fn new(state: Arc<State>, token: Option<String>) -> Result<Keeper> {
        let folder = state.config.kept_folder();
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        for dir in folders(&folder)? {
            if dir.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".")) {
                let _ = fs::remove_dir_all(&dir);
            } else if let Some(mut kept) = read_kept(&dir) {
                let asked = kept.parts.iter_mut().filter(|p| p.state == PartState::Asked);
                let lost = asked.map(|part| {
                    part.state = PartState::Missing;
                    part.why = "the agent ended before it came".into();
                });
                if lost.count() > 0 {
                    describe_kept(&dir, kept)?;
                }
            }
        }
        let keeper = Keeper { state, token, recent: Mutex::default(), running: Arc::default() };
        keep_within(&keeper.state);
        Ok(keeper)
    }

    /// Begins to keep a time; gives the name of its folder, and whether it is a new one. A moment of
    /// a time that is kept already is not kept again.
    pub fn keep(&self, asked: Asked) -> Result<(String, bool), Refused> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = recent.iter().find(|r| r.has(&asked)) {
            self.state.now().kept.again += 1;
            return Ok((kept.name.clone(), false));
        }
        let of_minute = recent.iter().filter(|r| r.began.elapsed() < Duration::from_secs(60)).count();
        if of_minute >= A_MINUTE || self.running.load(Ordering::Relaxed) >= AT_ONCE {
            self.state.now().kept.refused += 1;
            let why =
                format!("More than {A_MINUTE} times a minute, or {AT_ONCE} at once, are not kept; ask again later.");
            return Err(Refused { status: 503, why });
        }
        let folder = self.state.config.kept_folder();
        let name = free_name(&folder, *asked.time.end(), asked.origin, recent.iter().map(|r| r.name.as_str()));
        let (time, key) = (asked.time.clone(), asked.key.clone());
        recent.push_back(Recent { began: Instant::now(), name: name.clone(), time, key });
        if recent.len() > REMEMBERED {
            recent.pop_front();
        }
        drop(recent);
        self.state.now().kept.triggers[asked.origin as usize] += 1;
        let job = Job {
            state: Arc::clone(&self.state),
            token: self.token.clone(),
            dir: folder.join(&name),
            hidden: folder.join(format!(".{name}")),
            asked,
        };
        let running = Arc::clone(&self.running);
        running.fetch_add(1, Ordering::Relaxed);
        let work = move || {
            if let Err(e) = job.run() {
                job.state.now().kept.failed += 1;
                tell!("wakepath agent: {} is not kept: {}", job.dir.display(), output::reasons(&e));
            }
            let _ = fs::remove_dir_all(&job.hidden);
            running.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("keep".into()).spawn(work).is_err() {
            self.running.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused { status: 503, why: "No thread is left to keep it; ask again later.".into() });
        }
        Ok((name, true))
    }
}

/// One time that is being kept.
struct Job {
    state: Arc<State>,
    token: Option<String>,
    dir: PathBuf,
    /// Where things are made, before they are seen.
    hidden: PathBuf,
    asked: Asked,
}

impl Job {
    fn run(&self) -> Result<()> {
        window::wait_for(&self.asked.time);
        let here = self.hidden.join("here");
        fs::create_dir_all(&self.hidden)?;
        let held = window::make(&self.state, self.asked.time.clone(), &here)?;
        let peers = &self.state.config.peers;
        let own = if held.segments > 0 { PartState::Here } else { PartState::Empty };
        let mut kept = Kept {
            reason: self.asked.reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect(),
            from_real_ns: *self.asked.time.start(),
            to_real_ns: *self.asked.time.end(),
            parts: vec![KeptPart { agent: String::new(), state: own, why: String::new(), bytes: held.bytes }],
        };
        kept.parts.extend(peers.iter().map(|p| KeptPart { agent: p.clone(), ..KeptPart::default() }));
        describe_kept(&here, kept.clone())?;
        fs::rename(&here, &self.dir)?;
        let kept = Mutex::new(kept);
        thread::scope(|scope| {
            for (number, peer) in peers.iter().enumerate() {
                let (kept, this) = (&kept, &self);
                scope.spawn(move || {
                    let part = this.fetch(number, peer);
                    // one after the other: names of hosts may be the same
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let part = part.and_then(|(dir, bytes)| adopt(&dir, &this.dir).map(|()| bytes).map_err(other));
                    kept.parts[number + 1] = this.ended(peer, part);
                    if let Err(e) = describe_kept(&this.dir, kept.clone()) {
                        tell!("wakepath agent: {e}");
                    }
                });
            }
        });
        keep_within(&self.state);
        Ok(())
    }

    /// Gets a peer's part; gives where it is, and its bytes.
    fn fetch(&self, number: usize, peer: &str) -> std::io::Result<(PathBuf, u64)> {
        let limit = Duration::from_nanos(self.state.config.kept.peers_within.0);
        let client = Client { address: peer.to_owned(), token: self.token.clone(), patience: PATIENCE, limit };
        let to = self.hidden.join(number.to_string());
        let ahead = window::clock_ahead_ns(&client)?.0;
        let at = |ns: u64| ns.saturating_add_signed(ahead);
        let path = format!("/v1/window?from={}&to={}", at(*self.asked.time.start()), at(*self.asked.time.end()));
        let mut answer = client.get(&path)?;
        if answer.status != 200 {
            let status = answer.status;
            let kind = if status == 404 { ErrorKind::NotFound } else { ErrorKind::Other };
            return Err(std::io::Error::new(kind, window::error_of(status, &answer.text()?)));
        }
        let bytes = read_archive(answer.body(), &to, PART_BYTES_MAX, &mut |_| {}).map_err(other)?;
        Ok((to, bytes))
    }

    /// What became of a peer's part.
    fn ended(&self, peer: &str, part: std::io::Result<u64>) -> KeptPart {
        let mut now = self.state.now();
        let (state, count, why, bytes) = match part {
            Ok(bytes) => (PartState::Here, &mut now.kept.parts_here, String::new(), bytes),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                (PartState::Empty, &mut now.kept.parts_empty, e.to_string(), 0)
            }
            Err(e) if is_late(&e) => (PartState::Late, &mut now.kept.parts_late, e.to_string(), 0),
            Err(e) => (PartState::Missing, &mut now.kept.parts_missing, e.to_string(), 0),
        };
        *count += 1;
        KeptPart { agent: peer.to_owned(), state, why, bytes }
    }
}

fn other(e: impl std::error::Error + Send + Sync + 'static) -> std::io::Error {
    std::io::Error::other(e)
}

fn is_late(e: &std::io::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(e);
    while let Some(at) = cause {
        if at.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::TimedOut) {
            return true;
        }
        // an error that wraps another shows that one only by its own method
        cause = match at.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => at.source(),
        };
    }
    false
}

/// Names sort by time: `20260131T102500Z-alert`, and a number where that is taken.
fn free_name<'a>(folder: &Path, to: u64, origin: Origin, recent: impl Iterator<Item = &'a str> + Clone) -> String {
    let at = jiff::Timestamp::from_second((to / 1_000_000_000) as i64).unwrap_or_default();
    let digits: String = at.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let name = format!("{digits}-{}", origin.name());
    (1..)
        .map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") })
        .find(|n| folder.join(n).symlink_metadata().is_err() && !recent.clone().any(|r| r == n))
        .unwrap_or(name)
}

/// Deletes the oldest of what is kept beyond its bytes, and counts.
fn keep_within(state: &State) {
    let folder = state.config.kept_folder();
    let Ok(dirs) = folders(&folder) else { return };
    let mut held: Vec<(PathBuf, u64)> = dirs
        .into_iter()
        .filter(|d| !d.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".")))
        .map(|d| (segment_bytes(&d).map_or(0, |w| w.bytes), d))
        .map(|(bytes, d)| (d, bytes))
        .collect();
    held.sort();
    let mut all: u64 = held.iter().map(|h| h.1).sum();
    let mut deleted = 0;
    // the newest stays, however large: it is what was asked for
    while all > state.config.kept.max_bytes.0 && held.len() > 1 {
        let (dir, bytes) = held.remove(0);
        if let Err(e) = fs::remove_dir_all(&dir) {
            tell!("wakepath agent: {} cannot be deleted: {e}", dir.display());
        }
        all -= bytes;
        deleted += 1;
    }
    let mut now = state.now();
    now.kept.folders = held.len() as u64;
    now.kept.bytes = all;
    now.kept.deleted += deleted;
}

fn folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The time around a moment, as the configuration has it.
pub fn around(state: &State, from: u64, to: u64) -> RangeInclusive<u64> {
    let kept = &state.config.kept;
    let from = from.saturating_sub(kept.before.0);
    // what has not come yet is not waited for
    let to = to.min(real_ns()).saturating_add(kept.after.0);
    from..=to.min(from.saturating_add(kept.longest.0)).max(from)
}
