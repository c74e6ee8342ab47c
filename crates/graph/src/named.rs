//! What things are called: programs, threads, and what was asked for on connections.

use super::{HostRows, Index};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, StrId, TaskId};
use wakepath_model::rows::{RuntimeKind, TaskClass};

impl HostRows {
    /// A text that rows of the index name.
    pub(super) fn text(&self, id: StrId) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }
}

impl Index {
    /// What was asked for last on a connection, up to a moment: protocol, verb and target, empty where they are not known.
    pub fn asked(&self, host: HostId, flow: EndpointId, until: MonoNs) -> Option<[&str; 3]> {
        let h = self.rows(host)?;
        let after = self.store.lower_bound(&h.asked, (flow.0, until.0.saturating_add(1), 0));
        let asked = self.store.get(&h.asked, after.checked_sub(1)?).filter(|a| a.flow == flow)?;
        Some([asked.protocol, asked.verb, asked.target].map(|id| h.text(id)))
    }

    /// Process number and name of a task, as they were last known.
    pub fn program(&self, host: HostId, task: TaskId) -> Option<(u32, StrId)> {
        let h = self.rows(host)?;
        let after = self.store.lower_bound(&h.tasks, (u64::from(task.0) + 1, 0, 0));
        let mut rows = (0..after).rev().take(4).filter_map(|i| self.store.get(&h.tasks, i));
        rows.find(|r| r.task == task && r.comm != StrId::EMPTY).map(|r| (r.tgid, r.comm))
    }

    /// Whose logical task a task is, `RuntimeKind::None` of a thread.
    pub fn runtime(&self, host: HostId, task: TaskId) -> RuntimeKind {
        let Some(h) = self.rows(host) else { return RuntimeKind::None };
        let first = self.store.lower_bound(&h.tasks, (u64::from(task.0), 0, 0));
        self.store.get(&h.tasks, first).filter(|r| r.task == task).map_or(RuntimeKind::None, |r| r.runtime)
    }

    /// Whether it is a thread of the kernel: it makes no system calls, and has no pages that are read in for it.
    pub fn is_kernel(&self, host: HostId, task: TaskId) -> bool {
        let Some(h) = self.rows(host) else { return false };
        let first = self.store.lower_bound(&h.tasks, (u64::from(task.0), 0, 0));
        self.store.get(&h.tasks, first).is_some_and(|r| r.task == task && r.class == TaskClass::Kernel)
    }

    /// The name of a thread, which may differ from that of its process; empty where it is not known.
    pub fn thread_name(&self, host: HostId, task: TaskId) -> &str {
        let name = self.program(host, task).and_then(|p| Some(self.rows(host)?.text(p.1)));
        name.unwrap_or("")
    }
}
