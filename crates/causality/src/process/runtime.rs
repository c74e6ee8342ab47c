//! What the linker knows of runtimes: properties. No other place of it asks which runtime a task is of.

use wakepath_model::rows::RuntimeKind;

/// Who carries a task's operations, and who named the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Nature {
    /// A thread, or a task whose name is known from its birth on.
    #[default]
    Plain,
    /// A context of an event loop: the loop goes on with others at its own word.
    Context,
    /// A task whose name the recorder had to find first.
    NamedLate,
}

/// Properties of a runtime's logical tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) nature: Nature,
    /// It tells when its tasks end.
    pub(crate) tells_ends: bool,
    /// Each of its loops has a thread, which runs nothing else between two polls; and what a task makes after its reply is for nobody.
    pub(crate) has_loops: bool,
    /// Its tasks go from thread to thread.
    pub(crate) changes_threads: bool,
    /// A task is named for a request as long as nothing speaks against it: who sends the last part of the reply counts.
    pub(crate) is_named_by_last_part: bool,
}

/// The properties of a runtime; those of a thread where it has none, or is not known.
pub(crate) fn traits(of: RuntimeKind) -> Traits {
    let plain = Traits::default();
    match of {
        RuntimeKind::Go => Traits { tells_ends: true, changes_threads: true, ..plain },
        // of threads the kernel does
        RuntimeKind::None => Traits { tells_ends: true, ..plain },
        RuntimeKind::Python => Traits { nature: Nature::Context, has_loops: true, ..plain },
        RuntimeKind::Node => Traits { nature: Nature::Context, is_named_by_last_part: true, ..plain },
        RuntimeKind::Tokio => Traits { nature: Nature::NamedLate, changes_threads: true, ..plain },
        _ => plain,
    }
}
