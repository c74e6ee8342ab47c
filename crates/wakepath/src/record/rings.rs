//! What is advised where rings were too small.

use wakepath_wire as w;

/// What to do about rings of so many bytes each that were full: what is advised can be had here.
pub fn advice(bytes: u64) -> String {
    // SAFETY: asks for a constant.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    match larger(bytes, u64::try_from(cpus).unwrap_or(1), memory_available()) {
        Some(larger) => format!("record again with --ring-bytes {}", in_units(larger)),
        None => {
            "select fewer processes (--port, --pid, --comm, --cgroup), or record without waits (--no-waits); rings of \
                 twice the size cannot be had here"
                .to_owned()
        }
    }
}

/// Twice the size, where the kernel programs can have rings that large and half of the memory that is free holds them.
fn larger(bytes: u64, cpus: u64, available: u64) -> Option<u64> {
    let twice = bytes.checked_mul(2).filter(|twice| *twice <= u64::from(w::RING_BYTES_MAX))?;
    let all = twice.checked_mul(cpus).filter(|all| *all <= available / 2);
    all.map(|_| twice)
}

/// Bytes of memory that the host could give; none where it does not say.
fn memory_available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn in_units(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{}M", bytes >> 20) } else { format!("{}K", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_can_be_had() {
        const GIB: u64 = 1 << 30;
        assert_eq!(larger(8 << 20, 2, 4 * GIB), Some(16 << 20));
        assert_eq!(larger(128 << 20, 2, 4 * GIB), Some(256 << 20));
        assert_eq!(larger(256 << 20, 2, 400 * GIB), None, "the verifier takes none that are larger");
        assert_eq!(larger(128 << 20, 64, 16 * GIB), None, "no more than half of what is free");
        assert_eq!((in_units(256 << 20), in_units(128 << 10)), ("256M".to_owned(), "128K".to_owned()));
    }
}
