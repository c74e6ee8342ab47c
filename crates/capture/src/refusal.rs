//! What libbpf says while it loads programs: which one the kernel refused, and the verifier's last word on it.

use std::sync::{Mutex, PoisonError};

static REFUSED: Mutex<Option<String>> = Mutex::new(None);

/// Listens to libbpf's warnings from now on; with `WAKEPATH_LIBBPF_LOG` in the environment they are printed whole.
pub(crate) fn listen() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
        if std::env::var_os("WAKEPATH_LIBBPF_LOG").is_some() {
            eprint!("{text}");
        }
        if let Some(refused) = refusal(&text) {
            *REFUSED.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
        }
    })));
}

/// What was refused last, once.
pub(crate) fn take() -> Option<String> {
    REFUSED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Of a warning that holds a verifier's log: the program, and the line in which it is refused.
fn refusal(text: &str) -> Option<String> {
    let (head, log) = text.split_once("-- BEGIN PROG LOAD LOG --")?;
    let program = head.split('\'').nth(1)?;
    let log = log.split("-- END PROG LOAD LOG --").next()?;
    let says = log.lines().map(str::trim).rfind(|l| !l.is_empty() && !l.starts_with("processed "))?;
    Some(format!("the kernel's verifier refused the program {program}: {says}"))
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn the_verifiers_last_word_is_found() {
        let log = "libbpf: prog 'open_waits': -- BEGIN PROG LOAD LOG --\n0: R1=ctx() R10=fp0\n27: (1f) r0 -= r8\n\
                   math between pointer and register is not allowed\nprocessed 27 insns (limit 1000000)\n\
                   -- END PROG LOAD LOG --\n";
        let says =
            "the kernel's verifier refused the program open_waits: math between pointer and register is not allowed";
        assert_eq!(refusal(log).as_deref(), Some(says));
        assert_eq!(refusal("libbpf: prog 'x': BPF program load failed: -EINVAL"), None);
        assert_eq!(refusal("prog 'x': -- BEGIN PROG LOAD LOG --"), None);
    }
}
