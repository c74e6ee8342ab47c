//! What `/proc/self/fdinfo/N` says of an epoll instance: the descriptors registered in it.

/// A registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The registered descriptor.
    pub fd: i32,
    /// `EPOLL…`.
    pub events: u32,
    /// The program's own word.
    pub data: u64,
}

/// One line, `tfd:        5 events: 80000019 data:     7f00aa …`; `None` for any other.
pub fn line(text: &[u8]) -> Option<Target> {
    let mut words = text.split(|&b| b == b' ' || b == b'\t').filter(|w| !w.is_empty());
    let mut field = |name: &[u8], base: u64| {
        (words.next()? == name).then_some(())?;
        number(words.next()?, base)
    };
    let fd = field(b"tfd:", 10)?;
    let events = field(b"events:", 16)?;
    let data = field(b"data:", 16)?;
    Some(Target { fd: i32::try_from(fd).ok()?, events: events as u32, data })
}

fn number(word: &[u8], base: u64) -> Option<u64> {
    word.iter().try_fold(0u64, |n, &b| {
        let digit = char::from(b).to_digit(base as u32)?;
        Some(n.wrapping_mul(base).wrapping_add(u64::from(digit)))
    })
}
