//! Threads that a program keeps for its next ones: Ruby's (before 3.3) wait for another at a word of their own stack, and then name
//! themselves by the place of its code. Each is a task of its own, made by the one that woke the thread for it.

use wakepath_model::ids::{MonoNs, TaskId};

/// Most bytes of a thread's name.
const NAME_BYTES: usize = 15;

/// A wait at a word of the thread's own stack.
#[derive(Clone, Copy, Default)]
pub(crate) struct OwnWait {
    /// The word. A condition variable of glibc has two, of which its waiters use one and then the other.
    word: u64,
    pub(crate) from: MonoNs,
    pub(crate) woken: MonoNs,
    /// The task of its process that ended the wait; unknown where none did.
    pub(crate) by: TaskId,
}

impl OwnWait {
    pub(crate) fn new(word: u64, [from, woken]: [MonoNs; 2], by: TaskId) -> OwnWait {
        OwnWait { word: word & !7, from, woken, by }
    }
}

/// What a thread of the kernel was seen to be kept for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Where it waits for its next task; 0 where it was not seen to.
    place: u64,
    /// Its last wait at a word of its own, until what comes next shows what that was for.
    last: Option<OwnWait>,
    /// Its last task is over.
    pub(crate) is_over: bool,
    /// When the thread itself began, where it had several tasks.
    pub(crate) began: MonoNs,
    /// The task before the last, and since when it is another's.
    pub(crate) before: (TaskId, MonoNs),
}

impl Kept {
    /// A wait ended; whether it was one for the thread's next task.
    pub(crate) fn waited(&mut self, wait: OwnWait) -> bool {
        self.last = Some(wait);
        self.place == wait.word
    }

    /// It has another name; what it waited for before, where that shows now to have been its first task that was seen.
    pub(crate) fn named(&mut self, name: &[u8]) -> Option<OwnWait> {
        let wait = self.last.take().filter(|wait| self.place == 0 && wait.by != TaskId::UNKNOWN && is_place(name))?;
        self.place = wait.word;
        Some(wait)
    }
}

/// Whether a name is a place in code, FILE:LINE, as Ruby gives it; too long a one ends with `*`.
fn is_place(name: &[u8]) -> bool {
    let line = name.rsplit(|&b| b == b':').next().unwrap_or_default();
    let is_whole = line.len() < name.len() && !line.is_empty() && line.iter().all(u8::is_ascii_digit);
    is_whole || name.len() == NAME_BYTES && name.ends_with(b"*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_kept_where_it_waits_before_it_is_named_by_a_place() {
        let at = |word, by| OwnWait::new(word, [MonoNs(10), MonoNs(20)], TaskId(by));
        let mut kept = Kept::default();
        assert!(kept.named(b"app.rb:12").is_none(), "it did not wait");
        assert!(!kept.waited(at(0x68, 3)) && kept.named(b"worker").is_none(), "no place of code");
        assert!(!kept.waited(at(0x68, 0)) && kept.named(b"app.rb:12").is_none(), "nobody woke it");
        assert!(!kept.waited(at(0x68, 3)));
        assert_eq!(kept.named(b"app.rb:12").map(|wait| wait.by), Some(TaskId(3)));
        assert!(kept.waited(at(0x6c, 4)) && !kept.waited(at(0x90, 4)), "the other word of the same condition");
        assert!(is_place(b"application_co*") && !is_place(b"app:") && !is_place(b"12"));
    }
}
