//! What a shell completes of a recording: kinds of request, and ids of requests, of the folders that stand on the line.

use crate::{folders, requests};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use wakepath_analysis::names::Names;
use wakepath_analysis::selection::Selection;
use wakepath_analysis::service_map::{Service, service_map};
use wakepath_model::folder::Folder;
use wakepath_present::bottleneck::shell;
use wakepath_present::requests::KindView;
use wakepath_present::units;

/// The variable by which a shell's script asks for completions, with the shell's name.
pub const VARIABLE: &str = "WAKEPATH_COMPLETE";
/// What bash's script alone sets.
const BASH: &str = "_CLAP_COMPLETE_COMP_TYPE";
/// A shell's user does not wait longer; a folder that takes longer to read completes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kinds of request, as `wakepath requests` prints them.
pub fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    let candidates = seen().into_iter().map(|k| (k.asked.clone(), described(&k)));
    matching(current, candidates)
}

/// Services, as `wakepath requests --map` prints them.
pub fn services(current: &OsStr) -> Vec<CompletionCandidate> {
    let map = of_folders(|folder| service_map(folder, &Names::read(folder), None, &Selection::default()));
    let described = |s: &Service| format!("{} calls", units::count(s.calls.durations.count()));
    let candidates = map.unwrap_or_default().services.into_iter().map(|(name, s)| (name, described(&s)));
    matching(current, candidates)
}

/// Ids of the slowest requests of each kind.
pub fn request_ids(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut candidates = vec![("slowest".to_owned(), "the slowest request".to_owned())];
    for k in seen() {
        let longest = format!("{} at {}, {}", k.asked, k.service, units::duration(k.max_ns));
        for (i, id) in k.slowest.iter().enumerate() {
            let text = if i == 0 { longest.clone() } else { format!("{} at {}", k.asked, k.service) };
            candidates.push((id.clone(), text));
        }
    }
    matching(current, candidates.into_iter())
}

/// Folders, and once there is one on the line, requests too.
pub fn folders_or_requests(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut out = request_ids(current);
    if given().is_empty() {
        out.clear();
    }
    out.extend(PathCompleter::dir().complete(current));
    out
}

fn described(k: &KindView) -> String {
    format!("{} requests at {}, p50 {}", units::count(k.count), k.service, units::duration(k.p50_ns))
}

/// What begins like the word on the line, quoted where the shell would split it.
fn matching(current: &OsStr, candidates: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let typed = typed.trim_start_matches(['\'', '"']);
    // bash puts into the line what it is given; other shells quote it themselves
    let is_bash = std::env::var_os(BASH).is_some();
    candidates
        .filter(|(value, _)| value.starts_with(typed))
        .map(|(value, help)| {
            let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
            let value = if is_bash && !plain { shell(&value) } else { value };
            CompletionCandidate::new(value).help(Some(help.into()))
        })
        .collect()
}

/// The trace folders on the line that is completed, which follows `--`.
fn given() -> Vec<PathBuf> {
    let words = std::env::args_os().skip_while(|w| w != "--").skip(2).map(PathBuf::from);
    words.filter(|w| w.join("wakepath.json").is_file()).collect()
}

/// The kinds of request of those folders, most frequent first.
fn seen() -> Vec<KindView> {
    of_folders(|folder| requests::view(folder).kinds).unwrap_or_default()
}

/// What is asked of those folders; nothing where there are none, or it takes too long.
fn of_folders<T: Send + 'static>(ask: fn(&Folder) -> T) -> Option<T> {
    let dirs = given();
    if dirs.is_empty() {
        return None;
    }
    let (out, answer) = sync_channel(1);
    std::thread::spawn(move || {
        if let Ok(folder) = folders::open(&dirs) {
            let _ = out.send(ask(&folder));
        }
    });
    // what is late ends with the process
    answer.recv_timeout(PATIENCE).ok()
}
