//! Which probes are placed in programs of runtimes.

use crate::procfs;
use wakepath_wire as w;

/// What of runtimes is read, where a program's memory alone does not show who works for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// Probes that cost a service less than a tenth of its processor time: of Go, and of CPython with an event loop or greenlets.
    Auto,
    /// The same, only in processes that listen for connections.
    Services,
    /// No probes.
    Memory,
    /// These probes in programs of one runtime.
    Of {
        /// What the runtime is called.
        name: &'static str,
        /// One of `RUNTIME_…`.
        kind: u8,
        /// Bits of `MARKED_…`: which of its probes, beside those that each has.
        marks: u32,
    },
    /// Nothing at all.
    None,
}

impl Probed {
    /// What the runtime is called that it asks for.
    pub(super) fn runtime(self) -> Option<&'static str> {
        match self {
            Probed::Of { name, .. } => Some(name),
            Probed::Auto | Probed::Services | Probed::Memory | Probed::None => None,
        }
    }

    /// Whether a process with this layout gets these probes.
    pub(super) fn is_for(self, tgid: u32, layout: &w::Runtime) -> bool {
        match self {
            Probed::Auto => match layout.kind as u8 {
                w::RUNTIME_GO => true,
                w::RUNTIME_PYTHON => wakepath_runtimes::has_python_loop(tgid),
                _ => false,
            },
            Probed::Services => Probed::Auto.is_for(tgid, layout) && procfs::listens(tgid),
            Probed::Of { kind, .. } => u32::from(kind) == layout.kind,
            Probed::Memory | Probed::None => false,
        }
    }

    /// What [`w::Runtime::is_marked`] says of its programs.
    pub(super) fn mark(self) -> u32 {
        let also = if let Probed::Of { marks, .. } = self { marks } else { 0 };
        w::MARKED | also
    }
}

/// Which probes are placed: what was asked for, or the default. `is_selected`: not everybody is recorded.
///
/// # Errors
/// What is wrong with what was asked for: that nothing is read, and something too.
pub fn probed(asked: &[Probed], is_selected: bool) -> Result<Vec<Probed>, String> {
    for (alone, does) in
        [(Probed::None, "`none` reads nothing of any runtime"), (Probed::Memory, "`memory` places no probes")]
    {
        if asked.contains(&alone) && asked.iter().any(|p| *p != alone) {
            return Err(format!("--runtimes: {does}; leave it out, or the others"));
        }
    }
    let default = if is_selected { Probed::Auto } else { Probed::Services };
    Ok(if asked.is_empty() { vec![default] } else { asked.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: Probed = Probed::Of { name: "Go", kind: w::RUNTIME_GO, marks: w::MARKED_CHANNELS };

    #[test]
    fn what_refuses_all_stands_alone() {
        assert_eq!(probed(&[], true), Ok(vec![Probed::Auto]), "a selection gets the cheap probes");
        assert_eq!(probed(&[], false), Ok(vec![Probed::Services]), "without one, who serves gets them");
        assert_eq!(probed(&[Probed::None], true), Ok(vec![Probed::None]));
        assert!(probed(&[CHANNELS, Probed::None], true).is_err());
        assert!(probed(&[Probed::Memory, CHANNELS], true).is_err());
    }

    #[test]
    fn probes_are_for_programs_of_their_runtime_alone() {
        let of =
            |kind: u8| w::Runtime { kind: kind.into(), ..w::view(&[0; size_of::<w::Runtime>()]).expect("long enough") };
        assert!(CHANNELS.is_for(1, &of(w::RUNTIME_GO)) && !CHANNELS.is_for(1, &of(w::RUNTIME_TOKIO)));
        assert!(Probed::Auto.is_for(1, &of(w::RUNTIME_GO)) && !Probed::Memory.is_for(1, &of(w::RUNTIME_GO)));
        assert_eq!((CHANNELS.mark(), Probed::Auto.mark()), (w::MARKED | w::MARKED_CHANNELS, w::MARKED));
    }
}
