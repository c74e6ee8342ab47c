//! `wakepath attach` and `wakepath detach`: what tells a process's requests apart, put into it while it runs, and taken away.

mod hotspot;
mod inspector;
mod jvm;

use crate::cli::{AttachArgs, DetachArgs, HelperArgs, HelperFor};
use crate::output::{self, ANSWERED, FAILED, tell};
use anyhow::{Context as _, Result, bail};
use inspector::Inspector;
use std::io::{BufRead as _, IsTerminal as _};
use wakepath_runtimes::{Runtime, Unread};
use wakepath_wire as w;

/// What the helper keeps in its process, by which it is taken away.
const END: &str = "String(globalThis[Symbol.for('wakepath.helper')]?.end?.() ?? 'absent')";

/// Prints a helper.
pub fn helper(args: &HelperArgs) -> Result<i32> {
    let text = match args.runtime {
        HelperFor::Node => wakepath_runtimes::NODE_HELPER,
    };
    output::print(text.as_bytes())?;
    Ok(ANSWERED)
}

/// Puts the helper into a process.
pub fn attach(args: &AttachArgs) -> Result<i32> {
    let target = match Found::look(args.pid)? {
        Found::Node(target) => target,
        Found::Jvm(target) => return target.attach(args.yes),
    };
    if target.has_helper {
        tell!("{target} already has the helper: `wakepath record` tells its requests apart");
        return Ok(ANSWERED);
    }
    target.can_be_signalled()?;
    tell!(
        "This changes {target}, a running program:\n\
         {}\n\
         - Wakepath's helper starts in it (`wakepath helper node` prints it). It replaces some methods of net.Socket, http, https,\n\
         \x20 undici, pg, mysql2, ioredis, node-redis, knex, Sequelize, generic-pool, p-limit and p-queue by its own,\n\
         \x20 which call the old ones. It turns promise hooks on.\n\
         \x20 Commands that node-redis would send in one write for several requests are sent in several writes.\n\
         - Each request takes more processor time from then on, and 34 MiB of address space are reserved (docs/runtimes.md).\n\
         - Requests already in progress are not told apart; later ones are.\n\
         `wakepath detach {}` undoes it.",
        opening(),
        target.pid
    );
    if !is_wanted(args.yes)? {
        return Ok(FAILED);
    }
    // a function of its own, so that no name of the helper's is one of the program's
    let helper = format!(
        "((require, module) => {{ {}\n; return module.exports; }})(require, {{}})",
        wakepath_runtimes::NODE_HELPER
    );
    let told = target.evaluate(&helper)?;
    match told.split_once(' ').unwrap_or((&told, "")) {
        ("begun", _) => {}
        ("present", _) => {
            bail!(
                "{target} has the helper of another version of Wakepath; remedy: `wakepath detach {}`, then attach again",
                target.pid
            )
        }
        ("version", version) => bail!("the helper needs Node.js 18.19 or later; {target} is {version}"),
        _ => bail!("the helper did not start in {target}: it says {told:?}"),
    }
    if !matches!(Found::look(args.pid)?, Found::Node(Target { has_helper: true, .. })) {
        bail!(
            "the helper started in {target}, but its memory was not found there; remedy: `wakepath detach {}` removes it",
            args.pid
        );
    }
    tell!("{target} has the helper now; a running recording finds it within a second");
    Ok(ANSWERED)
}

/// Takes the helper away.
pub fn detach(args: &DetachArgs) -> Result<i32> {
    let target = match Found::look(args.pid)? {
        Found::Node(target) => target,
        Found::Jvm(target) => return target.detach(args.yes),
    };
    if !target.has_helper {
        tell!("{target} has no helper: there is nothing to undo");
        return Ok(ANSWERED);
    }
    target.can_be_signalled()?;
    tell!(
        "This changes {target}, a running program:\n\
         {}\n\
         - The helper in it restores each method that it replaced, and turns its hooks off. One page of its memory stays.",
        opening()
    );
    if !is_wanted(args.yes)? {
        return Ok(FAILED);
    }
    let told = target.evaluate(END)?;
    match told.split_once(' ').and_then(|(what, n)| (what == "ended").then(|| n.parse::<u32>().ok()).flatten()) {
        Some(0) => tell!("{target} is as it was before"),
        Some(stay) => tell!(
            "the helper is off in {target}. {stay} of its methods stay, because another library has wrapped them since; they only \
             call the old ones"
        ),
        None => bail!("the helper in {target} could not be turned off: it says {told:?}"),
    }
    Ok(ANSWERED)
}

/// What both do to a process of Node's.
fn opening() -> &'static str {
    "- Wakepath sends it SIGUSR1. Node then opens its inspector on a port of 127.0.0.1 (9229, or that of --inspect-port), and\n\
     \x20 Wakepath closes it again some milliseconds later. Until then every user of this host can run code in the process. A program\n\
     \x20 that handles SIGUSR1 itself runs its handler. Node writes \"Debugger listening\" to the program's standard error."
}

/// Whether a person, or --yes, wants it.
fn is_wanted(yes: bool) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("nothing was done: there is no terminal to ask on; remedy: --yes");
    }
    eprint!("Go on? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("reading the answer")?;
    let is_yes = matches!(answer.trim(), "y" | "Y" | "yes");
    if !is_yes {
        tell!("nothing was done");
    }
    Ok(is_yes)
}

/// A process of Node's.
struct Target {
    pid: u32,
    name: String,
    version: String,
    has_helper: bool,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, Node.js {})", self.name, self.pid, self.version)
    }
}

/// A process that something can be put into.
enum Found {
    Node(Target),
    Jvm(jvm::Target),
}

impl Found {
    fn look(pid: u32) -> Result<Found> {
        let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm")) else {
            bail!("there is no process {pid}");
        };
        let name = name.trim_end().to_owned();
        let about = format!("{name} ({pid})");
        if let Err(e) = std::fs::read_link(format!("/proc/{pid}/exe")) {
            bail!("the program of {about} cannot be read: {e}; run it as root, or as the user of the process");
        }
        let Some(runtime) = wakepath_runtimes::of_process(pid) else {
            bail!(
                "{about}: Wakepath has no helper for what this program is built with; it has them for Node.js and for Java 17 and later"
            );
        };
        if runtime.layout == Err(Unread::Machine) {
            bail!("{about} {}", needs_nothing(&runtime));
        }
        if let Some(target) = jvm::Target::of(pid, &name, &runtime) {
            return Ok(Found::Jvm(target));
        }
        let has_helper = match &runtime.layout {
            Err(Unread::Helper) => false,
            Ok(layout) if layout.kind == u32::from(w::RUNTIME_NODE) => true,
            _ => bail!("{about} {}", needs_nothing(&runtime)),
        };
        Ok(Found::Node(Target { pid, name, version: runtime.version, has_helper }))
    }
}

impl Target {
    /// Refuses where the signal would not open the inspector but do something else, the worst of which is to end the process.
    fn can_be_signalled(&self) -> Result<()> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).context("reading its signals")?;
        let is_caught = signals(&status, "SigCgt:").is_some_and(|set| set >> (libc::SIGUSR1 - 1) & 1 == 1);
        if !is_caught {
            bail!(
                "nothing was done: {self} does not handle SIGUSR1, by which Node opens its inspector (was it started with \
                 --disable-sigusr1?), so the signal would end it; remedy: start it with `node --require` (`wakepath helper --help`)"
            );
        }
        Ok(())
    }

    /// Runs a program in it; gives the text that comes of it. In a thread, since a process in a container has a network of its own.
    fn evaluate(&self, program: &str) -> Result<String> {
        let work = || {
            inspector::enter_network(self.pid)?;
            let mut inspector = Inspector::open(self.pid)?;
            let told = inspector.evaluate(program);
            let closed = inspector.close();
            told.and_then(|told| closed.map(|()| told))
        };
        let told = std::thread::scope(|scope| scope.spawn(work).join());
        told.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).with_context(|| format!("{self}"))
    }
}

/// Why there is no helper for a process.
fn needs_nothing(r: &Runtime) -> String {
    match &r.layout {
        Ok(_) if r.asked_by.is_empty() => {
            format!("({}) needs no helper: `wakepath record` tells its {} apart", r.name, r.tasks)
        }
        Ok(_) => format!("({}) needs no helper: `wakepath record {}` tells its {} apart", r.name, r.asked_by, r.tasks),
        Err(why) => format!("({}): {} are not told apart, because {}", r.name, r.tasks, why.reason()),
    }
}

/// A set of signals out of `/proc/PID/status`.
fn signals(status: &str, which: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(which))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_signals_is_read() {
        let status = "Name:\tnode\nSigIgn:\t0000000001001000\nSigCgt:\t0000000188004202\n";
        assert_eq!(signals(status, "SigCgt:"), Some(0x1_8800_4202));
        assert_eq!(signals(status, "SigBlk:"), None);
    }
}
