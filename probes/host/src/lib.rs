//! `probes/bpf/frames.h`, `probes/bpf/tls_records.h` and `probes/bpf/heads.h` as the kernel runs them, compiled for this machine: what they
//! take of an operation's bytes, and how they follow frames and records from one operation to the next. For tests and for `fuzz/`.

pub mod records;
pub mod streams;
pub mod told;

use wakepath_wire as w;

/// Bytes that a program may read of its user: others fault, as a page that is not there.
#[repr(C)]
#[derive(Clone, Copy)]
struct Region {
    from: u64,
    bytes: u64,
}

/// What `src/host.c` has of a kernel.
#[repr(C)]
struct Host {
    regions: *const Region,
    region_count: u64,
    ring: *mut u8,
    head: u64,
    room: u64,
    faults: u64,
}

// SAFETY: these are the functions of src/host.c, with its types.
unsafe extern "C" {
    safe fn host_flow_state_bytes() -> u64;
    safe fn host_ring_bytes() -> u64;
    fn host_flow(flow: *mut u64, is_http2: bool);
    fn host_told(flow: *mut u64);
    fn host_tls(flow: *mut u64);
    fn host_operation(host: *mut Host, flow: *mut u64, buffer: u64, bytes: u32, count: u32, way: u32) -> u32;
    fn host_lose(flow: *mut u64, op: u32);
    fn host_head(host: *mut Host, room: u32, buffers: u64, count: u64) -> u32;
}

/// The argument `way` of an operation: its bytes are not at its buffer, but at the address with which that begins.
const IN_IOVEC: u32 = 0x100;

/// Room of a ring that nobody else fills.
const RING_ROOM: usize = 1 << 20;

/// What was taken of an operation.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// From its first byte on; 0 where it moves nothing but the body of a frame.
    pub head: usize,
    /// Where each piece after the head begins, and its bytes.
    pub pieces: Vec<(usize, Vec<u8>)>,
    /// Whether the last piece says that it is the last: so of each operation that is longer than a head.
    pub is_closed: bool,
    /// How many reads went to memory that is not the operation's.
    pub faults: u64,
}

/// A connection that is known to have streams, as the kernel programs keep it.
pub struct Flow {
    state: Vec<u64>,
    ring: Vec<u64>,
}

/// One of the two directions, as the kernel programs number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the task that is watched.
    Sent,
    /// To it.
    Received,
}

impl Way {
    fn code(self) -> u32 {
        u32::from(match self {
            Way::Sent => w::OP_SEND,
            Way::Received => w::OP_RECV,
        })
    }
}

impl Flow {
    /// `is_http2`: the recorder said so; else it only looked so.
    pub fn new(is_http2: bool) -> Flow {
        // SAFETY: the state has its size and is aligned.
        Flow::made(|state| unsafe { host_flow(state, is_http2) })
    }

    /// The recorder says so now.
    pub fn told(&mut self) {
        // SAFETY: the state has its size.
        unsafe { host_told(self.state.as_mut_ptr()) };
    }

    /// A connection whose records of TLS are followed.
    pub fn of_tls() -> Flow {
        // SAFETY: as above.
        Flow::made(|state| unsafe { host_tls(state) })
    }

    fn made(make: impl FnOnce(*mut u64)) -> Flow {
        let mut state = vec![0; (host_flow_state_bytes() as usize).div_ceil(8)];
        make(state.as_mut_ptr());
        Flow { state, ring: vec![0; (host_ring_bytes() as usize).div_ceil(8)] }
    }

    /// One operation moves these bytes.
    pub fn operation(&mut self, way: Way, bytes: &[u8]) -> Taken {
        self.operation_in(way, bytes, false, RING_ROOM)
    }

    /// The same from one buffer of an array of such (`is_in_iovec`), where the ring has room for `room` bytes of records.
    pub fn operation_in(&mut self, way: Way, bytes: &[u8], is_in_iovec: bool, room: usize) -> Taken {
        self.operation_of(way, &[bytes], is_in_iovec, room)
    }

    /// The same from several buffers of an array; without one, only the first counts.
    pub fn operation_of(&mut self, way: Way, buffers: &[&[u8]], is_in_iovec: bool, room: usize) -> Taken {
        let buffers = if is_in_iovec { buffers } else { &buffers[..1] };
        let iovec: Vec<[u64; 2]> = buffers.iter().map(|b| [b.as_ptr() as u64, b.len() as u64]).collect();
        let mut regions: Vec<Region> = buffers.iter().map(|b| region(b)).collect();
        if is_in_iovec {
            regions.push(Region { from: iovec.as_ptr() as u64, bytes: iovec.len() as u64 * 16 });
        }
        let buffer = if is_in_iovec { iovec.as_ptr() as u64 } else { iovec[0][0] };
        let bytes: usize = buffers.iter().map(|b| b.len()).sum();
        let mut host = self.host(&regions, room);
        let code = way.code() | if is_in_iovec { IN_IOVEC } else { 0 };
        let count = if is_in_iovec { iovec.len() } else { 0 } as u32;
        // SAFETY: the regions are alive, the ring is as large as the code takes it for, and the state has its size.
        let head = unsafe { host_operation(&raw mut host, self.state.as_mut_ptr(), buffer, bytes as u32, count, code) }
            as usize;
        let (pieces, is_closed) = self.pieces(host.head as usize, way);
        Taken { head, pieces, is_closed, faults: host.faults }
    }

    /// Bytes of that way pass by unseen.
    pub fn lose(&mut self, way: Way) {
        // SAFETY: the state has its size.
        unsafe { host_lose(self.state.as_mut_ptr(), way.code()) };
    }

    fn host(&mut self, regions: &[Region], room: usize) -> Host {
        Host {
            regions: regions.as_ptr(),
            region_count: regions.len() as u64,
            ring: self.ring.as_mut_ptr().cast(),
            head: 0,
            room: room as u64,
            faults: 0,
        }
    }

    /// The records in the first `bytes` of the ring, and whether the last of them is the operation's last.
    fn pieces(&self, bytes: usize, way: Way) -> (Vec<(usize, Vec<u8>)>, bool) {
        let written: Vec<u8> = self.ring.iter().flat_map(|w| w.to_ne_bytes()).take(bytes).collect();
        let (mut out, mut at, mut is_closed) = (Vec::new(), 0, false);
        while at < bytes {
            let frame = w::Frame { origin: 0, bytes: &written[at..] };
            let (head, more) = (frame.head().expect("a head"), frame.read::<w::More>().expect("a record"));
            assert_eq!(head.kind, w::KIND_MORE);
            assert_eq!(u32::from(head.sub & 0xf), way.code());
            assert!(!is_closed, "a piece after the last one");
            is_closed = head.sub & w::MORE_LAST != 0;
            out.push((more.at as usize, frame.tail::<w::More>(more.bytes as usize).to_vec()));
            at += usize::from(head.bytes);
        }
        (out, is_closed)
    }
}

fn region(bytes: &[u8]) -> Region {
    Region { from: bytes.as_ptr() as u64, bytes: bytes.len() as u64 }
}

/// The head of an operation of several buffers, at most `room` bytes of it, and whether all of it could be read. A buffer of `None` is
/// not there: it says to have so many bytes.
pub fn head_of(buffers: &[Result<&[u8], usize>], room: usize) -> (Vec<u8>, bool) {
    /// An address at which no program has anything.
    const NOWHERE: u64 = 8;
    let array: Vec<[u64; 2]> = buffers
        .iter()
        .map(|b| match b {
            Ok(bytes) => [bytes.as_ptr() as u64, bytes.len() as u64],
            Err(bytes) => [NOWHERE, *bytes as u64],
        })
        .collect();
    let mut regions: Vec<Region> = buffers.iter().flatten().map(|b| region(b)).collect();
    regions.push(Region { from: array.as_ptr() as u64, bytes: array.len() as u64 * 16 });
    let mut flow = Flow::new(true);
    let mut host = flow.host(&regions, 0);
    // SAFETY: the regions are alive, and the ring is as large as the code takes it for.
    let done = unsafe { host_head(&raw mut host, room as u32, array.as_ptr() as u64, array.len() as u64) };
    let bytes = (done & 0x7fff_ffff) as usize;
    let head = flow.ring.iter().flat_map(|w| w.to_ne_bytes()).take(bytes).collect();
    (head, done == bytes as u32)
}
