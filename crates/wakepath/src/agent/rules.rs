//! Triggers of the configuration: looks at what was recorded since the last look for requests that failed or were slow.
//!
//! A look is a process of its own with a low priority, which ends after a bounded processor time; and the pauses between looks are so
//! long that they stay a small share of it. How long a look waits for a processor does not count: on a busy host rules are wanted most.

use super::config::{On, Rule};
use super::kept::{Asked, Keeper, around};
use super::state::{Origin, State, real_ns};
use super::window;
use crate::output::{self, tell};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often it is looked at least.
const EVERY: Duration = Duration::from_secs(10);
/// A look begins so long before the last one ended (ns): requests that were in flight then.
const OVERLAP_NS: u64 = 5_000_000_000;
/// Processor time of one look (s); one that needs more ends without an answer.
const LOOK_SECONDS: u64 = 20;
/// Looks take at most one part in so many of a processor's time.
const SHARE: u32 = 20;
/// Niceness of a look: beside a program of usual priority it has a tenth of a processor.
const NICE: libc::c_int = 10;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Durations that are kept of a kind, and how many there must be before one is slow by them.
const DURATIONS_MAX: usize = 2000;
const DURATIONS_MIN: usize = 100;
/// Kinds that are told apart.
const KINDS_MAX: usize = 1000;
/// One in a hundred is always beyond p99: slow is what takes so many times as long.
const TIMES_P99: u64 = 2;

/// A request as the rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    id: String,
    kind: String,
    at: u64,
    duration_ns: u64,
    is_failed: bool,
}

/// Looks until the process ends, if there is a rule.
///
/// # Errors
/// If there is no thread.
pub fn begin(state: Arc<State>, keeper: Arc<Keeper>, temporary: PathBuf) -> Result<()> {
    if state.config.triggers.is_empty() {
        return Ok(());
    }
    let work = move || {
        let mut usual = Usual::default();
        let mut last: Vec<String> = Vec::new();
        let mut from = real_ns();
        let mut is_told = false;
        loop {
            thread::sleep(EVERY);
            let to = real_ns();
            let mut took = Duration::ZERO;
            match look(&state, from.saturating_sub(OVERLAP_NS)..=to, &temporary, &mut took) {
                Ok(seen) => {
                    let new: Vec<Seen> = seen.iter().filter(|s| !last.contains(&s.id)).cloned().collect();
                    last = seen.into_iter().map(|s| s.id).collect();
                    state.config.triggers.iter().for_each(|rule| keep(&state, &keeper, rule, &usual, &new));
                    usual.learn(&new);
                    state.now().kept.looked_to = to;
                    is_told = false;
                }
                Err(e) => {
                    state.now().kept.looks_failed += 1;
                    if !std::mem::replace(&mut is_told, true) {
                        tell!("wakepath agent: the rules could not be looked at: {}", output::reasons(&e));
                    }
                }
            }
            state.now().kept.looks += 1;
            from = to;
            thread::sleep((took * SHARE).saturating_sub(EVERY));
        }
    };
    thread::Builder::new().name("rules".into()).spawn(work).context("no thread for the rules")?;
    Ok(())
}

fn keep(state: &State, keeper: &Keeper, rule: &Rule, usual: &Usual, new: &[Seen]) {
    let found: Vec<&Seen> = new.iter().filter(|s| is_found(rule, usual, s)).collect();
    let Some(first) = found.iter().min_by_key(|s| s.at).filter(|_| found.len() as u64 >= rule.at_least) else { return };
    let end = found.iter().map(|s| s.at.saturating_add(s.duration_ns)).max().unwrap_or(first.at);
    let what = if rule.on == On::Failed { "failed" } else { "slow" };
    let more = if found.len() > 1 { format!(" and {} more", found.len() - 1) } else { String::new() };
    let reason = format!("{what}: {} (request {}){more}", first.kind, first.id);
    let time = around(state, first.at, end);
    let moment = first.at..=end.min(*time.end());
    // refused ones are counted there
    let _ = keeper.keep(Asked { origin: Origin::Rule, reason, moment, time, key: String::new() });
}

fn is_found(rule: &Rule, usual: &Usual, seen: &Seen) -> bool {
    let is_kind = rule.kind.as_ref().is_none_or(|k| *k == seen.kind || seen.kind.ends_with(&format!(" {k}")));
    is_kind
        && match (rule.on, rule.above) {
            (On::Failed, _) => seen.is_failed,
            (On::Slow, Some(above)) => seen.duration_ns > above.0,
            (On::Slow, None) => {
                usual.p99(&seen.kind).is_some_and(|p99| seen.duration_ns > p99.saturating_mul(TIMES_P99))
            }
        }
}

/// How long requests of each kind took in the looks before.
#[derive(Default)]
struct Usual(HashMap<String, Vec<u64>>);

impl Usual {
    fn p99(&self, kind: &str) -> Option<u64> {
        let mut durations = self.0.get(kind).filter(|d| d.len() >= DURATIONS_MIN)?.clone();
        durations.sort_unstable();
        durations.get(durations.len() * 99 / 100).copied()
    }

    fn learn(&mut self, new: &[Seen]) {
        for seen in new {
            if !self.0.contains_key(&seen.kind) && self.0.len() >= KINDS_MAX {
                continue;
            }
            let durations = self.0.entry(seen.kind.clone()).or_default();
            durations.push(seen.duration_ns);
            if durations.len() > DURATIONS_MAX {
                durations.drain(..DURATIONS_MAX / 2);
            }
        }
    }
}

/// The requests of a time of the ring. `took`: the processor time of finding them.
fn look(
    state: &State,
    time: std::ops::RangeInclusive<u64>,
    temporary: &Path,
    took: &mut Duration,
) -> Result<Vec<Seen>> {
    window::wait_for(&time);
    let dir = temporary.join("rules");
    let _ = fs::remove_dir_all(&dir);
    let held = window::make(state, time, &dir)?;
    let answer = if held.segments > 0 { ask(&dir, took) } else { Ok(Vec::new()) };
    let _ = fs::remove_dir_all(&dir);
    answer
}

fn ask(dir: &Path, took: &mut Duration) -> Result<Vec<Seen>> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["requests", "--each", "--json", "--limit", "0"]).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: between fork and exec three system calls, which take no lock and no memory.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: LOOK_SECONDS, rlim_max: LOOK_SECONDS };
            libc::setrlimit(libc::RLIMIT_CPU, &raw const limit);
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
            Ok(())
        });
    }
    let mut child = command.spawn().context("cannot be started")?;
    let mut text = Vec::new();
    let out = child.stdout.take().context("has no output")?;
    let read = out.take(ANSWER_BYTES_MAX).read_to_end(&mut text);
    if read.is_err() || text.len() as u64 == ANSWER_BYTES_MAX {
        let _ = child.kill();
    }
    let (status, used) = wait(&child)?;
    *took = used;
    read?;
    // 1: nothing was asked of any service in that time
    match status.code() {
        Some(0) => Ok(seen(&serde_json::from_slice(&text)?)),
        Some(1) => Ok(Vec::new()),
        _ => bail!("requests of the last seconds: {status}; it may take {LOOK_SECONDS} s of a processor"),
    }
}

/// Waits for a child's end; how it ended, and the processor time that it used.
fn wait(child: &Child) -> Result<(ExitStatus, Duration)> {
    let mut status = 0;
    // SAFETY: plain numbers, of which any value is valid; the call fills them, and waits for a child of ours that nobody else waits for.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage), usage)
    };
    if pid < 0 {
        return Err(std::io::Error::last_os_error()).context("cannot be waited for");
    }
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok((ExitStatus::from_raw(status), of(usage.ru_utime) + of(usage.ru_stime)))
}

fn seen(answer: &Value) -> Vec<Seen> {
    let one = |r: &Value| {
        Some(Seen {
            id: r["request"].as_str()?.to_owned(),
            kind: format!("{} {}", r["service"].as_str()?, r["asked"].as_str()?),
            at: u64::try_from(r["at_ns"].as_i64()?).ok()?,
            duration_ns: r["duration_ns"].as_u64()?,
            is_failed: r["failed"].as_bool().unwrap_or(false),
        })
    };
    // what is still in flight is seen again when it has ended
    let ended = answer["requests"].as_array().into_iter().flatten().filter(|r| r["end"] != "unfinished");
    ended.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Time;

    fn request(duration_ns: u64, is_failed: bool) -> Seen {
        Seen { id: String::new(), kind: "web:80 GET /cart".into(), at: 0, duration_ns, is_failed }
    }

    fn rule(on: On, above: Option<Time>, kind: Option<&str>) -> Rule {
        Rule { on, kind: kind.map(str::to_owned), at_least: 1, above }
    }

    #[test]
    fn slow_is_far_beyond_what_is_usual_for_the_kind() {
        let mut usual = Usual::default();
        let slow = rule(On::Slow, None, None);
        assert!(!is_found(&slow, &usual, &request(1_000_000, false)), "nothing is known of the kind");
        usual.learn(&(1..=100).map(|n| request(n * 1000, false)).collect::<Vec<_>>());
        for (duration, is) in [(100_000, false), (150_000, false), (200_001, true)] {
            assert_eq!(is_found(&slow, &usual, &request(duration, false)), is, "{duration}");
        }
        let above = rule(On::Slow, Some(Time(50_000)), None);
        assert!(
            is_found(&above, &usual, &request(50_001, false)) && !is_found(&above, &usual, &request(50_000, false))
        );
    }

    #[test]
    fn what_a_look_costs_is_its_processor_time() {
        let spawn = |script: &str| Command::new("sh").args(["-c", script]).spawn().expect("a shell");
        let (status, slept) = wait(&spawn("sleep 0.5; exit 3")).expect("it ends");
        assert!(status.code() == Some(3) && slept < Duration::from_millis(400), "{status} {slept:?}");
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (status, worked) = wait(&spawn(busy)).expect("it ends");
        assert!(status.success() && worked > slept, "{worked:?} {slept:?}");
    }

    #[test]
    fn a_rule_is_for_its_kind() {
        let usual = Usual::default();
        for (kind, is) in
            [(None, true), (Some("GET /cart"), true), (Some("web:80 GET /cart"), true), (Some("GET /"), false)]
        {
            assert_eq!(is_found(&rule(On::Failed, None, kind), &usual, &request(1, true)), is, "{kind:?}");
            assert!(!is_found(&rule(On::Failed, None, kind), &usual, &request(1, false)));
        }
    }

    #[test]
    fn what_is_remembered_of_kinds_is_bounded() {
        let mut usual = Usual::default();
        for n in 0..3 * KINDS_MAX {
            usual.learn(&[Seen { kind: n.to_string(), ..request(1, false) }]);
        }
        usual.learn(&vec![Seen { kind: "0".into(), ..request(1, false) }; 5 * DURATIONS_MAX]);
        assert!(usual.0.len() == KINDS_MAX && usual.0["0"].len() <= DURATIONS_MAX);
    }
}
