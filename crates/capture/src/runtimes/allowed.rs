//! In which processes the runtimes are read.

use std::collections::HashSet;

/// Which processes are recorded: others' memory is not read, and no probes are placed in their programs.
#[derive(Default)]
pub enum Allowed {
    /// All.
    #[default]
    All,
    /// These, and those that they make.
    Processes(HashSet<u32>),
}

impl Allowed {
    pub(super) fn allows(&self, tgid: u32) -> bool {
        match self {
            Allowed::All => true,
            Allowed::Processes(some) => some.contains(&tgid),
        }
    }

    /// This one too.
    pub(super) fn allow(&mut self, tgid: u32) {
        if let Allowed::Processes(some) = self {
            some.insert(tgid);
        }
    }

    /// Goes on with a process that another one made.
    pub(super) fn inherit(&mut self, tgid: u32, parent: u32) {
        if let Allowed::Processes(some) = self
            && some.contains(&parent)
        {
            some.insert(tgid);
        }
    }

    /// Its number may be a stranger's soon.
    pub(super) fn forget(&mut self, tgid: u32) {
        if let Allowed::Processes(some) = self {
            some.remove(&tgid);
        }
    }
}
