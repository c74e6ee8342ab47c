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
                "this binary has no agent for the JVM, because it was built without a JDK; remedy: scripts/install build, then build \
                 Wakepath again"
            );
        }
        Machine::look(self.pid).with_context(|| format!("{self}"))
    }

    /// Puts the agent in.
    pub fn attach(&self, yes: bool) -> Result<i32> {
        if self.has_agent() {
            tell!("{self} already has the agent: `wakepath record` tells the tasks of its executors apart");
            return Ok(ANSWERED);
        }
        let machine = self.machine()?;
        tell!(
            "This changes {self}, a running program:\n\
             {}\n\
             - The agent changes some methods of ThreadPoolExecutor, FutureTask, ForkJoinPool, ForkJoinTask and CompletableFuture,\n\
             \x20 of classes that extend a pool, of the pools of Tomcat, Jetty and JBoss, and of Netty and Reactor, so that they call\n\
             \x20 the agent. The JVM compiles these methods again.\n\
             - Each task takes more processor time from then on, and 33 MiB of address space are reserved (docs/runtimes.md).\n\
             - Tasks and requests that are already there are not told apart; later ones are.\n\
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
            (_, why) => bail!("the agent did not start in {self}, and changed nothing: {why}"),
        }
        if !self.has_agent() {
            bail!(
                "the agent started in {self}, but its memory was not found there; remedy: `wakepath detach {}` removes it",
                self.pid
            );
        }
        tell!("{self} has the agent now; a running recording finds it within a second");
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
             - The agent restores the methods that it changed, and the JVM compiles them again. The agent's classes and the memory\n\
             \x20 that it used stay.",
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
                    "the agent is off in {self}. {stay} classes still call methods of the agent, which do nothing now"
                )
            }
            (_, why) => bail!("the agent could not be removed from {self}: {why}"),
        }
        Ok(ANSWERED)
    }
}

/// What both do to a JVM.
const OPENING: &str = "\
- Wakepath sends it SIGQUIT, unless its attach socket in /tmp is open. The JVM then opens that socket, and loads a Java agent from a\n\
\x20 folder in /tmp, which Wakepath removes at once. Java 21 and later print a warning on the program's standard error.";
