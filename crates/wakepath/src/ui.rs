//! `wakepath ui`: the commands' answers over HTTP, and the page that shows them.

mod kept;

use crate::cli::{EvidenceFlag, UiArgs};
use crate::output::{self, tell};
use crate::{asked, folders, info, owner, progress};
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;
use wakepath_model::folder::is_being_written;
use wakepath_ui::api::{FOLDER, FOLDERS};
use wakepath_ui::{Answering, Progress, server};

/// Bytes of a token: more than can be guessed.
const TOKEN_BYTES: usize = 16;

/// The question that the page asks first.
const BRIEF: [&str; 3] = ["info", "--brief", FOLDERS];

/// The command whose file is a folder.
const BUNDLE: &str = "bundle";
/// How the names of temporary folders begin.
const TEMPORARY: &str = "wakepath-bundle-";

/// The folders of the page.
struct Recordings {
    dirs: Vec<PathBuf>,
    /// What they held in short when the server began, for as long as nothing was written into them since: the page shows it first
    /// of all, and to find it takes longer the more there is.
    brief: (u64, String),
    /// Where the bundle is that is being made: files are written one at a time.
    making: Arc<Mutex<Option<PathBuf>>>,
}

/// Serves the page.
pub fn run(args: &UiArgs, evidence: Option<EvidenceFlag>) -> Result<i32> {
    let dirs = args.folders.folders.clone();
    if evidence.is_some() {
        bail!("ui answers with all evidence; --evidence=shown is for the other commands");
    }
    let content = folders::content(&dirs);
    // what is no folder is said at once
    let brief = (content, info::brief_json(&folders::open(&dirs)?, &dirs)?);
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
            "wakepath: this binary was built without the page, and serves only its answers; in the source tree: scripts/page, then cargo build"
        );
    }
    if !server::is_loopback(at) {
        tell!("wakepath: what is sent from here to other machines is not encrypted");
    }
    tell!("wakepath: serving until Ctrl-C");
    let making = Arc::<Mutex<Option<PathBuf>>>::default();
    let recordings = Recordings { dirs, brief, making: Arc::clone(&making) };
    server::serve(listener, Arc::new(recordings), token, env!("CARGO_PKG_VERSION"))?;
    // who makes it ends with this process, and removes nothing
    if let Some(dir) = making.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = std::fs::remove_dir_all(dir);
    }
    Ok(output::ANSWERED)
}

/// A token that nobody can guess.
fn token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).context("no random token for the page")?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

impl Recordings {
    /// A command with its folders.
    fn command(&self, arguments: &[String]) -> Vec<OsString> {
        let mut words = Vec::new();
        for word in arguments {
            if word == FOLDERS {
                words.extend(self.dirs.iter().map(|d| d.clone().into_os_string()));
            } else if let Some(number) = word.strip_prefix(FOLDER) {
                // one that does not exist has no name
                let dir = number.parse().ok().and_then(|n: usize| self.dirs.get(n));
                words.push(dir.cloned().unwrap_or_default().into_os_string());
            } else {
                words.push(word.into());
            }
        }
        words
    }

    /// Whether the folders that a command names are there.
    fn has_all(&self, arguments: &[String]) -> Result<(), String> {
        match self.command(arguments).iter().any(|w| w.is_empty()) {
            true => Err(format!("there is no such folder: there are {}, numbered from 0", self.dirs.len())),
            false => Ok(()),
        }
    }
}

/// A folder that goes away with its value, made by whom new folders are for.
fn temporary() -> Result<TempDir> {
    let dir = std::env::temp_dir();
    owner::writes_in(&dir.join(TEMPORARY));
    tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(&dir).with_context(|| dir.display().to_string())
}

impl Answering for Recordings {
    fn kept(&self, arguments: &[String]) -> Option<Vec<u8>> {
        if arguments == BRIEF {
            return (self.brief.0 == folders::content(&self.dirs)).then(|| self.brief.1.clone().into_bytes());
        }
        kept::Place::of(&self.dirs, arguments)?.get()
    }

    fn answer(&self, arguments: &[String], progress: &Arc<Progress>) -> Result<Vec<u8>, String> {
        self.has_all(arguments)?;
        let place = kept::Place::of(&self.dirs, arguments);
        let words = ["wakepath", "--no-pager"].map(OsString::from).into_iter().chain(self.command(arguments));
        // in front of --evidence, which would take a word after it for its value
        let mut words: Vec<OsString> = words.collect();
        words.insert(3, "--json".into());
        let answer = progress::told_to(progress, || asked::answer(words))?;
        if let Some(place) = place {
            place.put(arguments, &answer);
        }
        Ok(answer)
    }

    fn download(&self, arguments: &[String], progress: &Arc<Progress>, out: &mut dyn Write) -> Result<String, String> {
        self.has_all(arguments)?;
        let mut words = vec![OsString::from("wakepath")];
        words.extend(self.command(arguments));
        // a folder is made whole before it can be sent
        let folder = arguments.first().is_some_and(|command| command == BUNDLE).then(temporary).transpose();
        let folder = folder.map_err(|e| format!("no room for the bundle: {}", output::reasons(&e)))?;
        *self.making.lock().unwrap_or_else(PoisonError::into_inner) = folder.as_ref().map(|f| f.path().to_owned());
        if let Some(folder) = &folder {
            words.extend(["--output".into(), folder.path().join("bundle").into_os_string()]);
        }
        progress::told_to(progress, || asked::write(words, out))
    }

    fn typed(&self, arguments: &[String]) -> String {
        let mut words = self.command(arguments);
        if arguments.first().is_some_and(|command| command == BUNDLE) {
            words.extend(["-o", "bundle"].map(OsString::from));
        }
        let words = words.into_iter().map(|w| asked::typed_word(&w.to_string_lossy()));
        std::iter::once("wakepath".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    fn stamp(&self) -> u64 {
        folders::stamp(&self.dirs)
    }

    fn is_live(&self) -> bool {
        self.dirs.iter().any(|d| is_being_written(d))
    }

    fn folders(&self) -> Vec<String> {
        self.dirs.iter().map(|d| d.display().to_string()).collect()
    }
}
