//! Frames of TCP from one end of a cable, and what comes out at others.

use std::time::{Duration, Instant};
use wakepath_capture::packets::{LiveOptions, LiveSource};

/// TCP flags.
pub const SYN: u8 = 0x02;
pub const PSH_ACK: u8 = 0x18;
pub const ACK: u8 = 0x10;

/// A segment between host a (10.0.0.1) and host b (10.0.0.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// From a to b.
    pub is_request: bool,
    /// Port of the service at b.
    pub port: u16,
    pub flags: u8,
    /// Of the frame.
    pub length: usize,
    /// Tells segments apart.
    pub seq: u32,
}

impl Segment {
    pub fn new(is_request: bool, port: u16, flags: u8, length: usize) -> Segment {
        Segment { is_request, port, flags, length, seq: 0 }
    }

    fn bytes(&self) -> Vec<u8> {
        let (src, dst) = if self.is_request { (1u8, 2u8) } else { (2, 1) };
        let (sport, dport) = if self.is_request { (40_000, self.port) } else { (self.port, 40_000) };
        let mut f = vec![2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 8, 0, 0x45, 0];
        f.extend(((self.length - 14) as u16).to_be_bytes());
        f.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, src, 10, 0, 0, dst]);
        let sum: u32 = f[14..34].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f.extend(sport.to_be_bytes());
        f.extend(dport.to_be_bytes());
        f.extend(self.seq.to_be_bytes());
        f.extend([0, 0, 0, 0, 0x50, self.flags, 4, 0, 0, 0, 0, 0]);
        f.resize(self.length, 0xee);
        f
    }

    /// A segment out of what begins with Ethernet; none where it is none of ours.
    fn parse(f: &[u8], length: usize) -> Option<Segment> {
        let h = f.get(..54).filter(|h| h[12..14] == [8, 0] && h[23] == 6 && h[26..29] == [10, 0, 0])?;
        let is_request = h[29] == 1;
        let at = if is_request { 36 } else { 34 };
        let number = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let seq = u32::from_be_bytes([h[38], h[39], h[40], h[41]]);
        Some(Segment { is_request, port: number(at), flags: h[47], length, seq })
    }
}

/// What came out somewhere: a segment, and how many of its bytes.
pub type Came = (Segment, usize);

/// Listens at an end, whatever tunnel it comes in.
pub struct Tap(LiveSource);

impl Tap {
    pub fn at(interface: &str) -> Tap {
        Tap(LiveSource::open(LiveOptions {
            interfaces: vec![interface.into()],
            ring_bytes: 1 << 20,
            ..LiveOptions::default()
        })
        .expect("it opens"))
    }

    /// What comes within a time, in the first pieces that do.
    pub fn what_comes(&mut self, within: Duration, before: usize) -> Vec<Came> {
        let (mut came, end) = (Vec::new(), Instant::now() + within);
        while came.is_empty() && Instant::now() < end {
            self.poll(Duration::from_millis(20), before, &mut came);
        }
        came
    }

    /// Adds our segments that came; how many packets did.
    fn poll(&mut self, wait: Duration, before: usize, came: &mut Vec<Came>) -> usize {
        let found = self.0.poll(wait, &mut |p| {
            let (bytes, length) = (p.bytes.get(before..), (p.length as usize).saturating_sub(before));
            if let Some(segment) = bytes.and_then(|b| Segment::parse(b, length)) {
                came.push((segment, p.bytes.len() - before));
            }
        });
        found.expect("it goes on")
    }

    /// The first `count` that come, and what comes a little longer; two minutes at most. A tunnel has bytes before each frame.
    pub fn take(&mut self, count: usize, before: usize) -> Vec<Came> {
        let mut came = Vec::new();
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let seen = came.len() >= count;
            let n = self.poll(Duration::from_millis(if seen { 60 } else { 20 }), before, &mut came);
            if n == 0 && (seen || Instant::now() > end) {
                return came;
            }
        }
    }
}

/// Sends segments into the cables of a and b, numbering them from `first` on; what was sent.
pub fn send(segments: &[Segment], first: u32) -> Vec<Segment> {
    let senders = [Sender::on("hb"), Sender::on("ha")];
    let numbered: Vec<Segment> =
        segments.iter().enumerate().map(|(i, s)| Segment { seq: first + i as u32, ..*s }).collect();
    for s in &numbered {
        senders[usize::from(s.is_request)].send(&s.bytes());
        // switch and cables keep the order of one sender only
        std::thread::sleep(Duration::from_millis(1));
    }
    numbered
}

struct Sender(std::os::fd::OwnedFd);

impl Sender {
    fn on(interface: &str) -> Sender {
        use std::os::fd::FromRawFd as _;
        let name = std::ffi::CString::new(interface).expect("a name");
        // SAFETY: plain values; the descriptor is new; the address is live and of the length given.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            let socket = std::os::fd::OwnedFd::from_raw_fd(fd);
            let mut a: libc::sockaddr_ll = std::mem::zeroed();
            a.sll_family = libc::AF_PACKET as u16;
            a.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let length = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, std::ptr::from_ref(&a).cast(), length), 0);
            Sender(socket)
        }
    }

    fn send(&self, frame: &[u8]) {
        use std::os::fd::AsRawFd as _;
        // SAFETY: the slice is live.
        let n = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(n, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}
