//! What the guest's kernel knows of tasks, files and sockets, read out of its memory.
//!
//! A read may fail, or meet a struct that is being changed: then there is no answer, or one that the next look corrects.

use crate::btf::Place;
use crate::layout::Layout;
use crate::{Memory, number};

/// A UNIX socket.
pub const AF_UNIX: u16 = 1;
/// Of IPv4.
pub const AF_INET: u16 = 2;
/// Of IPv6.
pub const AF_INET6: u16 = 10;
/// TCP.
pub const TCP: u16 = 6;
/// `SOCK_DONE`: the other end's FIN came.
const ENDED: u64 = 1 << 1;
/// Most descriptors of a process that a kernel allows.
const DESCRIPTORS_MAX: u64 = 1 << 30;
/// Most bytes of a UNIX socket's name.
const NAME_MAX: usize = wakepath_wire::UNIX_NAME_BYTES as usize;

/// A task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Thread.
    pub tid: u32,
    /// Process.
    pub tgid: u32,
    /// When it began, ns of the guest's clock.
    pub start_ns: u64,
    /// Name, ended by a zero.
    pub comm: [u8; 16],
    /// Process that made its process.
    pub parent_tgid: u32,
    /// Its address space.
    pub mm: u64,
}

/// An open file that moves bytes between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Number of its inode, which no other socket or pipe of this boot has.
    pub inode: u64,
    /// A socket's `sock`; 0 = a pipe.
    pub sock: u64,
    /// One descriptor alone refers to it.
    pub is_last: bool,
}

/// The end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// `AF_…`.
    pub family: u16,
    /// `IPPROTO_…`.
    pub protocol: u16,
    /// `SOCK_…`.
    pub kind: u8,
    /// As TCP numbers states.
    pub state: u8,
    /// Number of the network namespace.
    pub netns: u32,
    /// Its own address, IPv4 in the first four bytes.
    pub address: [u8; 16],
    /// Its own port.
    pub port: u16,
    /// The other end's address.
    pub peer_address: [u8; 16],
    /// The other end's port.
    pub peer_port: u16,
    /// A UNIX socket's other end: the number of its inode, 0 = not known.
    pub peer: u64,
    /// A UNIX socket's own name.
    pub name: Vec<u8>,
    /// The name of a UNIX socket's other end.
    pub peer_name: Vec<u8>,
}

/// Numbers of the next bytes of a TCP connection. The other end's FIN, which TCP numbers as a byte, is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// To be written.
    pub written: u32,
    /// To be read.
    pub copied: u32,
    /// To arrive.
    pub arrived: u32,
}

/// A kernel's memory by its layout.
#[derive(Clone, Copy)]
pub struct Kernel<'a> {
    /// Where members are.
    pub layout: &'a Layout,
    /// The memory.
    pub memory: &'a dyn Memory,
}

impl Kernel<'_> {
    fn get(&self, of: u64, place: Place) -> Option<u64> {
        number(self.memory, of.checked_add(place.at)?, place.bytes.min(8) as usize)
    }

    fn pointer(&self, of: u64, place: Place) -> Option<u64> {
        self.get(of, place).filter(|&at| is_kernel(at))
    }

    fn bytes(&self, of: u64, place: Place) -> Option<[u8; 16]> {
        let mut all = [0; 16];
        self.memory.read(of.checked_add(place.at)?, all.get_mut(..place.bytes as usize)?).then_some(all)
    }

    /// The address of the task that the processor runs whose variables begin at `variables`.
    pub fn current(&self, variables: u64) -> Option<u64> {
        let at = number(self.memory, variables.wrapping_add(self.layout.current), 8)?;
        is_kernel(at).then_some(at)
    }

    /// Thread and process of a task: little, to know it again by.
    pub fn ids(&self, task: u64) -> Option<(u32, u32)> {
        let t = &self.layout.task;
        Some((self.get(task, t.pid)? as u32, self.get(task, t.tgid)? as u32))
    }

    /// All that is read of a task.
    pub fn task(&self, task: u64) -> Option<Task> {
        let t = &self.layout.task;
        let (tid, tgid) = self.ids(task)?;
        let parent_tgid = self.pointer(task, t.parent).and_then(|parent| self.get(parent, t.tgid)).unwrap_or(0) as u32;
        Some(Task {
            tid,
            tgid,
            start_ns: self.get(task, t.start)?,
            comm: self.comm(task)?,
            parent_tgid,
            mm: self.mm(task)?,
        })
    }

    /// A task's name.
    pub fn comm(&self, task: u64) -> Option<[u8; 16]> {
        self.bytes(task, self.layout.task.comm)
    }

    /// A task's address space.
    pub fn mm(&self, task: u64) -> Option<u64> {
        self.get(task, self.layout.task.mm)
    }

    /// Where an address space has the command line: its beginning and end.
    pub fn command_line(&self, mm: u64) -> Option<(u64, u64)> {
        let t = &self.layout.task;
        is_kernel(mm).then(|| Some((self.get(mm, t.arguments)?, self.get(mm, t.arguments_end)?)))?
    }

    /// The socket or pipe that is behind a descriptor of a task; `Some(None)` for anything else.
    pub fn file(&self, task: u64, descriptor: i32) -> Option<Option<File>> {
        const TYPE: u64 = 0o170_000;
        const SOCKET: u64 = 0o140_000;
        const PIPE: u64 = 0o010_000;
        let f = &self.layout.file;
        let Ok(descriptor) = u64::try_from(descriptor) else { return Some(None) };
        let table = self.pointer(self.pointer(task, f.files)?, f.table)?;
        if descriptor >= self.get(table, f.count)?.min(DESCRIPTORS_MAX) {
            return Some(None);
        }
        let pointers = self.pointer(table, f.pointers)?;
        let file = number(self.memory, pointers.checked_add(8 * descriptor)?, 8)?;
        if !is_kernel(file) {
            return Some(None);
        }
        let inode = self.pointer(file, f.inode)?;
        let kind = self.get(inode, f.mode)? & TYPE;
        if kind != SOCKET && kind != PIPE {
            return Some(None);
        }
        let sock = if kind == SOCKET { self.sock(self.pointer(file, f.private)?)? } else { 0 };
        let is_last = f.refers.is_some_and(|(place, one)| self.get(file, place) == Some(one));
        Some(Some(File { inode: self.get(inode, f.number)?, sock, is_last }))
    }

    fn sock(&self, socket: u64) -> Option<u64> {
        self.pointer(socket, self.layout.socket.sock)
    }

    /// Family, protocol, and kind of a socket.
    pub fn kind(&self, sock: u64) -> Option<(u16, u16, u8)> {
        let s = &self.layout.socket;
        Some((self.get(sock, s.family)? as u16, self.get(sock, s.protocol)? as u16, self.get(sock, s.kind)? as u8))
    }

    /// All that is read of a socket.
    pub fn socket(&self, sock: u64) -> Option<Socket> {
        let s = &self.layout.socket;
        let (family, protocol, kind) = self.kind(sock)?;
        let net = self.pointer(sock, s.net)?;
        let mut socket = Socket {
            family,
            protocol,
            kind,
            state: self.get(sock, s.state)? as u8,
            netns: self.get(net, s.net_number)? as u32,
            ..Socket::default()
        };
        match family {
            AF_UNIX => self.unix(sock, &mut socket),
            AF_INET | AF_INET6 => {
                let (own, peer) = match (family, s.address6, s.peer_address6) {
                    (AF_INET6, Some(own), Some(peer)) => (own, peer),
                    _ => (s.address, s.peer_address),
                };
                socket.address = self.bytes(sock, own)?;
                socket.peer_address = self.bytes(sock, peer)?;
                socket.port = self.get(sock, s.port)? as u16;
                socket.peer_port = u16::from_be(self.get(sock, s.peer_port)? as u16);
            }
            _ => {}
        }
        Some(socket)
    }

    fn unix(&self, sock: u64, socket: &mut Socket) {
        let s = &self.layout.socket;
        socket.protocol = 0;
        socket.name = self.unix_name(sock);
        let Some(peer) = self.pointer(sock, s.unix_peer) else { return };
        socket.peer_name = self.unix_name(peer);
        // before it is accepted, the other end has no file
        let inode = self.pointer(peer, s.socket).and_then(|at| at.checked_add(s.inode.at));
        socket.peer = inode.and_then(|inode| self.get(inode, self.layout.file.number)).unwrap_or(0);
    }

    fn unix_name(&self, sock: u64) -> Vec<u8> {
        const FAMILY: usize = 2;
        let s = &self.layout.socket;
        let read = || {
            let at = self.pointer(sock, s.unix_address)?;
            let bytes = (self.get(at, s.name_bytes)? as usize).checked_sub(FAMILY)?.min(NAME_MAX);
            let mut name = vec![0; bytes];
            self.memory.read(at.checked_add(s.name.at + FAMILY as u64)?, &mut name).then_some(name)
        };
        let name: Vec<u8> = read().unwrap_or_default();
        match name.first() {
            None | Some(0) => name,
            Some(_) => name.split(|&b| b == 0).next().unwrap_or(&[]).to_vec(),
        }
    }

    /// The numbers of a TCP socket's next bytes.
    pub fn numbers(&self, sock: u64) -> Option<Numbers> {
        let s = &self.layout.socket;
        let written = self.get(sock, s.written)? as u32;
        let (copied, arrived) = (self.get(sock, s.copied)? as u32, self.get(sock, s.arrived)? as u32);
        let fin = u32::from(self.get(sock, s.flags)? & ENDED != 0);
        // whoever reads the last byte reads the FIN with it, where it has come by then
        let read_fin = if copied == arrived { fin } else { 0 };
        Some(Numbers { written, copied: copied.wrapping_sub(read_fin), arrived: arrived.wrapping_sub(fin) })
    }
}

/// Whether an address is the kernel's.
fn is_kernel(at: u64) -> bool {
    at >= 1 << 63
}
