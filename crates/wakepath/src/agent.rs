//! `wakepath agent`: records without end, answers about the recent past, and keeps what triggers ask for, with its peers' parts.

pub mod config;
mod kept;
mod recorder;
pub mod remote;
mod rules;
mod service;
mod state;
pub mod usage;
pub mod window;

use crate::cli::AgentArgs;
use crate::output::{self, tell};
use crate::{ending, owner, rights};
use anyhow::{Context as _, Result, bail};
use config::Config;
use kept::Keeper;
use rustix::fs::{FlockOperation, flock};
use service::Service;
use state::State;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use wakepath_ui::agent::serve;
use wakepath_ui::server::is_loopback;

/// Runs until SIGINT or SIGTERM.
pub fn run(args: &AgentArgs) -> Result<i32> {
    let config = Config::read(&args.config)?;
    let token = config.token()?;
    if args.check {
        output::print(config.effective().as_bytes())?;
        return Ok(output::ANSWERED);
    }
    if let Some(missing) = rights::missing_for_kernel_vantage() {
        bail!(
            "the agent records by the kernel, which needs {missing}: run it as root, or by packaging/wakepath-agent.service"
        );
    }
    let folder = config.folder.clone();
    let _only = claim(&folder)?;
    let listener = listen(config.http.listen)?;
    let at = listener.local_addr()?;
    let stop = ending::on_signals()?;
    let temporary = folder.join("tmp");
    let _ = fs::remove_dir_all(&temporary);
    make_dir(&temporary)?;
    let state = Arc::new(State::new(config));
    let keeper = Arc::new(Keeper::new(Arc::clone(&state), token.clone())?);
    rules::begin(Arc::clone(&state), Arc::clone(&keeper), temporary.clone())?;
    let service = Service { state: Arc::clone(&state), keeper, temporary, made: AtomicU64::new(0) };
    serve(listener, Arc::new(service), token)?;
    tell!("wakepath agent: recording into {}, answering at {at}", folder.display());
    if !is_loopback(at) {
        tell!("wakepath agent: what is sent to other machines is not encrypted");
    }
    if let Some(file) = &args.ready_file {
        owner::write_ready_file(file, &format!("{at}\n")).with_context(|| format!("writing {}", file.display()))?;
    }
    recorder::keep_running(&state, &stop);
    Ok(output::ANSWERED)
}

/// Makes the folder, and sees to it that no other agent uses it while the file that it gives is open.
fn claim(folder: &Path) -> Result<File> {
    make_dir(folder)?;
    let path = folder.join("agent.lock");
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = open.with_context(|| format!("opening {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("{}: another agent uses it; end that one, or give this one another folder", folder.display());
    }
    Ok(file)
}

fn make_dir(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("making {}", folder.display()))
}

fn listen(at: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(at).map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => anyhow::anyhow!("http.listen: {at} is in use; give another port"),
        _ => anyhow::Error::new(e).context(format!("http.listen: {at}")),
    })
}
