//! `wakepath ui`: the commands' answers over HTTP, and the page that shows them.

use crate::cli::{self, Cli, Command, EvidenceFlag, UiArgs};
use crate::output::{self, Answers, tell};
use crate::{flame, folders, forecast, info, open, requests, show, timeline, triage, waits, why};
use anyhow::{Context as _, Result, bail};
use clap::FromArgMatches as _;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wakepath_present::bottleneck::shell;
use wakepath_ui::api::FOLDERS;
use wakepath_ui::{Answering, server};

/// Bytes of a token: more than can be guessed.
const TOKEN_BYTES: usize = 16;
/// Folders within a trace folder are not deeper.
const DEPTH_MAX: u8 = 4;

/// The folders of the page.
struct Recordings {
    dirs: Vec<PathBuf>,
}

/// Serves the page.
pub fn run(args: &UiArgs, evidence: Option<EvidenceFlag>) -> Result<i32> {
    let dirs = args.folders.folders.clone();
    if evidence.is_some() {
        bail!("ui answers with all evidence; --evidence=shown is for the other commands");
    }
    // what is no folder is said at once
    folders::open(&dirs)?;
    if !server::is_loopback(args.bind) && !args.token {
        bail!(
            "--bind {}: other machines reach this address, and anybody there could read the recording; add --token, or \
             serve on 127.0.0.1 and go there by ssh -L",
            args.bind
        );
    }
    let listener = TcpListener::bind(args.bind).map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => {
            anyhow::anyhow!("{} is in use; --bind {}:0 takes a free port", args.bind, args.bind.ip())
        }
        _ => anyhow::Error::new(e).context(format!("serving on {}", args.bind)),
    })?;
    let token = args.token.then(token).transpose()?;
    let at = listener.local_addr()?;
    let query = token.as_ref().map_or_else(String::new, |t| format!("?token={t}"));
    output::print(format!("http://{at}/{query}\n").as_bytes())?;
    if !server::has_page() {
        tell!(
            "wakepath: the page is not in this binary, only its answers are; in the source tree: scripts/page, then cargo build"
        );
    }
    if !server::is_loopback(at) {
        tell!("wakepath: what is sent from here to other machines is not encrypted");
    }
    tell!("wakepath: serving until Ctrl-C");
    server::serve(listener, Arc::new(Recordings { dirs }), token, env!("CARGO_PKG_VERSION"))?;
    Ok(output::ANSWERED)
}

/// A token that nobody can guess.
fn token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).context("reading /dev/urandom")?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

impl Recordings {
    /// A command with its folders.
    fn command(&self, arguments: &[String]) -> Vec<OsString> {
        let mut words = Vec::new();
        for word in arguments {
            if word == FOLDERS {
                words.extend(self.dirs.iter().map(|d| d.clone().into_os_string()));
            } else {
                words.push(word.into());
            }
        }
        words
    }
}

impl Answering for Recordings {
    fn answer(&self, arguments: &[String]) -> Result<Vec<u8>, String> {
        let words = ["wakepath", "--no-pager"].map(OsString::from).into_iter().chain(self.command(arguments));
        // in front of --evidence, which would take a word behind it for its value
        let mut words: Vec<OsString> = words.collect();
        words.insert(3, "--json".into());
        let matches = cli::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
        let cli = Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?;
        let mut out = Answers::Kept(Vec::new());
        let answered = match &cli.command {
            Command::Triage(args) => triage::run(args, &mut out),
            Command::Info(args) => info::run(args, &mut out),
            Command::Requests(args) => requests::run(args, &mut out),
            Command::Show(args) => show::run(args, cli.evidence, &mut out),
            Command::Waits(args) => waits::run(args, &mut out),
            Command::Why(args) => why::run(args, &mut out),
            Command::Flame(args) => flame::run(args, &mut out),
            Command::Timeline(args) => timeline::run(args, &mut out),
            Command::Forecast(args) => forecast::run(args, &mut out),
            Command::Open(args) => open::run(args, &mut out),
            _ => Err(anyhow::anyhow!("that command is not for the page")),
        };
        match (answered, out) {
            (Ok(_), Answers::Kept(answer)) => Ok(answer),
            (Ok(_), Answers::Stdout) => Err("the answer went elsewhere".into()),
            (Err(e), _) => Err(output::reasons(&e)),
        }
    }

    fn typed(&self, arguments: &[String]) -> String {
        let is_plain =
            |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@=%".contains(&b));
        let words = self.command(arguments).into_iter().map(|w| {
            let word = w.to_string_lossy().into_owned();
            if is_plain(&word) { word } else { shell(&word) }
        });
        std::iter::once("wakepath".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    fn stamp(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for dir in &self.dirs {
            stamp(&dir.join("hosts"), DEPTH_MAX, &mut hasher);
            of_file(&dir.join("sync.json"), &mut hasher);
        }
        hasher.finish()
    }

    fn folders(&self) -> Vec<String> {
        self.dirs.iter().map(|d| d.display().to_string()).collect()
    }
}

/// Adds the names, lengths and times of all files below a folder.
fn stamp(dir: &Path, depth: u8, hasher: &mut DefaultHasher) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && depth > 0 {
            stamp(&path, depth - 1, hasher);
        } else {
            of_file(&path, hasher);
        }
    }
}

fn of_file(path: &Path, hasher: &mut DefaultHasher) {
    if let Ok(about) = fs::metadata(path) {
        path.hash(hasher);
        about.len().hash(hasher);
        about.modified().ok().hash(hasher);
    }
}
