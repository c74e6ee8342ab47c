//! Both vantages at once: the same operation seen twice is one row.
//!
//! The kernel's records win: its times are nearer, its numbers are TCP's own. Of the library's records are kept what
//! the kernel cannot have: inputs, what poll handed over of what was ready, and the first bytes of a message where the
//! kernel's record has none, as where the library found a border first and then had the kernel discard what it had shown.

use crate::RowSink;
use crate::joined::{HOLD_NS, time_of, with_head};
use crate::kernel::KernelDecoder;
use wakepath_wire::{self as w, Frame};

impl KernelDecoder {
    /// Both vantages record: [`KernelDecoder::frame`] takes the kernel's records and [`KernelDecoder::library_frame`] the
    /// library's.
    pub fn join(&mut self) {
        self.joined.get_or_insert_default();
    }

    /// One record of the library vantage.
    pub fn library_frame<S: RowSink>(&mut self, f: Frame<'_>, sink: &mut S) {
        let Some(joined) = &mut self.joined else { return self.record(f, sink) };
        let Some(head) = f.head() else { return };
        match head.kind {
            w::KIND_INPUT | w::KIND_POLL => {
                if let Some(tgid) = f.read::<w::Input>().map(|r| r.tgid).filter(|_| head.kind == w::KIND_INPUT) {
                    joined.processes.insert(tgid);
                }
                self.record(f, sink);
            }
            w::KIND_OP => {
                let Some(o) = f.read::<w::Op>() else { return };
                joined.processes.insert(o.tgid);
                let Some(held) = joined.held.remove(&o.tid) else { return };
                let kernel = Frame { origin: 0, bytes: &held };
                let same = kernel
                    .read::<w::Op>()
                    .filter(|k| (k.flow, k.head.sub & !w::SUB_LOGICAL, k.bytes) == (o.flow, o.head.sub, o.bytes))
                    .filter(|_| o.flags & w::OPF_HEAD != 0 && o.flags & w::OPF_PLAIN == 0);
                match same {
                    Some(k) => {
                        let record = with_head(&k, &kernel, &o, &f);
                        self.record(Frame { origin: 0, bytes: &record }, sink);
                    }
                    None => self.record(kernel, sink),
                }
            }
            w::KIND_TASK => {
                if let Some(r) = f.read::<w::TaskEvent>().filter(|r| r.head.sub != w::TASK_EXIT) {
                    joined.processes.insert(r.tgid);
                }
            }
            _ => {}
        }
    }

    /// Whether a record of the kernel's is not to be decoded now: it waits for its first bytes, or the library tells
    /// the same better.
    pub(crate) fn is_held<S: RowSink>(&mut self, f: &Frame<'_>, sink: &mut S) -> bool {
        let Some(joined) = &mut self.joined else { return false };
        let Some(head) = f.head() else { return false };
        let op = f.read::<w::Op>().filter(|_| head.kind == w::KIND_OP);
        let now_ns = time_of(f.bytes);
        let mut due: Vec<Vec<u8>> = Vec::new();
        if !joined.held.is_empty() && now_ns > joined.oldest_ns.saturating_add(HOLD_NS) {
            due.extend(joined.held.drain().map(|(_, r)| r));
        }
        let mut is_held = false;
        match (head.kind, op) {
            (w::KIND_POLL, _) => {
                is_held = f.read::<w::Poll>().is_some_and(|r| joined.processes.contains(&r.tgid));
            }
            (_, Some(o)) => {
                due.extend(joined.held.remove(&o.tid));
                is_held = o.bytes > 0
                    && o.head_bytes == 0
                    && o.flags & w::OPF_UNREADABLE != 0
                    && joined.processes.contains(&o.tgid);
                if is_held {
                    if joined.held.is_empty() {
                        joined.oldest_ns = now_ns;
                    }
                    joined.held.insert(o.tid, f.bytes.to_vec());
                }
            }
            _ => {}
        }
        due.sort_by_key(|r| time_of(r));
        for bytes in due {
            self.record(Frame { origin: 0, bytes: &bytes }, sink);
        }
        is_held
    }

    /// Nothing more comes: what waited for its first bytes goes without.
    pub fn finish<S: RowSink>(&mut self, sink: &mut S) {
        let Some(joined) = &mut self.joined else { return };
        let mut held: Vec<Vec<u8>> = joined.held.drain().map(|(_, r)| r).collect();
        held.sort_by_key(|r| time_of(r));
        for bytes in held {
            self.record(Frame { origin: 0, bytes: &bytes }, sink);
        }
    }
}
