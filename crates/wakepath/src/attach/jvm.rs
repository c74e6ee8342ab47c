//! What is put into a JVM, and taken away again.

use super::hotspot::Machine;
use super::is_wanted;
use crate::output::{ANSWERED, FAILED, tell};
use anyhow::{Context as _, Result, bail};
use wakepath_runtimes::{JVM_AGENT, Runtime, jvm_agent_words};

/// A JVM.
pub struct Target {
    pid: u32,
    name: String,
    version: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, Java {})", self.name, self.pid, self.version)
    }
}

impl Target {
    /// `None` where it is no JVM that the agent is for.
    pub fn of(pid: u32, name: &str, runtime: &Runtime) -> Option<Target> {
        (runtime.name == "JVM").then(|| Target { pid, name: name.to_owned(), version: runtime.version.clone() })
    }

    fn has_agent(&self) -> bool {
        jvm_agent_words(self.pid).is_some()
    }

    /// Whom to ask, where there is something to be asked for.
    fn machine(&self) -> Result<Machine> {
        if JVM_AGENT.is_empty() {
            bail!(
                "this wakepath has no agent for the JVM, since there was no JDK where it was built; remedy: scripts/install build, and \
                 build it again"
            );
        }
        Machine::look(self.pid).with_context(|| format!("{self}"))
    }

    /// Puts the agent in.
    pub fn attach(&self, yes: bool) -> Result<i32> {
        if self.has_agent() {
            tell!("{self} has the agent: `wakepath record` tells the tasks of its executors apart");
            return Ok(ANSWERED);
        }
        let machine = self.machine()?;
        tell!(
            "This changes {self}, a running program:\n\
             {}\n\
             - In it, some methods of ThreadPoolExecutor, FutureTask, ForkJoinPool, ForkJoinTask and CompletableFuture, of classes\n\
             \x20 that extend a pool, and of the pools of Tomcat and Jetty call Wakepath's agent, and are compiled anew. Each task takes\n\
             \x20 more processor time from then on, and 33 MiB of addresses are reserved (docs/runtimes.md).\n\
             - Tasks that were submitted before are not told apart; those that come later are.\n\
             `wakepath detach {}` undoes it.",
            OPENING,
            self.pid
        );
        if !is_wanted(yes)? {
            return Ok(FAILED);
        }
        let said = machine.load(JVM_AGENT, "begin").with_context(|| format!("{self}"))?;
        match said.split_once('\t').unwrap_or((&said, "")) {
            ("begun", _) => {}
            ("present", _) => {
                bail!(
                    "{self} already has an agent of another version of Wakepath; remedy: that version's `wakepath detach`, or restart the program"
                )
            }
            ("lacks", what) => {
                bail!("{self} lacks a method that this version of Wakepath changes, so nothing was changed: {what}")
            }
            (_, why) => bail!("the agent did not begin in {self}, and changed nothing: {why}"),
        }
        if !self.has_agent() {
            bail!(
                "the agent began in {self}, but its memory is not found there: `wakepath detach {}` takes it away",
                self.pid
            );
        }
        tell!("{self} has the agent now; a recording that is under way finds it within a second");
        Ok(ANSWERED)
    }

    /// Takes it away.
    pub fn detach(&self, yes: bool) -> Result<i32> {
        if !self.has_agent() {
            tell!("{self} has no agent: there is nothing to undo");
            return Ok(ANSWERED);
        }
        let machine = self.machine()?;
        tell!(
            "This changes {self}, a running program:\n\
             {}\n\
             - In it, the methods become what they were, and are compiled anew. The agent's classes and the memory that it used stay.",
            OPENING
        );
        if !is_wanted(yes)? {
            return Ok(FAILED);
        }
        let said = machine.load(JVM_AGENT, "end").with_context(|| format!("{self}"))?;
        match said.split_once('\t').unwrap_or((&said, "")) {
            ("ended", "0") => tell!("{self} has its own methods again"),
            ("ended", stay) => {
                tell!(
                    "the agent is out of {self}, but {stay} of its classes still call methods of it, which do nothing now"
                )
            }
            (_, why) => bail!("the agent could not be taken out of {self}: {why}"),
        }
        Ok(ANSWERED)
    }
}

/// What both do to a JVM.
const OPENING: &str = "\
- It sends SIGQUIT, at which the JVM opens its attach socket in /tmp, unless that is open, and has it load a Java agent from a folder\n\
\x20 there, which is removed at once. Java 21 and later warn of that on the program's standard error.";
