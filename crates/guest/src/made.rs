//! A kernel that tests make up: its types, and a guest's memory that has tasks and sockets of these types.

use crate::Memory;
use crate::btf::{BEGIN, Btf, HEADER};
use std::cell::RefCell;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// A member: its name, its byte, and its type: a size in bytes, or a struct by its name.
pub type Member<'a> = (&'a str, u32, Result<u32, &'a str>);

/// Types as BTF has them.
#[derive(Default)]
pub struct Types {
    types: Vec<u8>,
    names: Vec<u8>,
    count: u32,
    by_name: BTreeMap<String, u32>,
}

impl Types {
    /// None yet.
    pub fn new() -> Types {
        Types { names: vec![0], ..Types::default() }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.names.len() as u32;
        self.names.extend_from_slice(name.as_bytes());
        self.names.push(0);
        at
    }

    /// Adds a type: its number.
    pub fn add(&mut self, name: &str, info: u32, word: u32, rest: &[u32]) -> u32 {
        let name = self.name(name);
        for word in [name, info, word].iter().chain(rest) {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    /// Adds a struct. One without a name is known by `called`.
    pub fn structure(&mut self, name: &str, called: &str, bytes: u32, members: &[Member<'_>]) -> u32 {
        const STRUCT: u32 = 4;
        let mut rest = Vec::new();
        for &(member, at, of) in members {
            let number = match of {
                // an integer, behind another name for it
                Ok(bytes) => {
                    let int = self.add("", 1 << 24, bytes, &[8 * bytes]);
                    self.add("t", 8 << 24, int, &[])
                }
                Err(of) => self.by_name[of],
            };
            let member = self.name(member);
            rest.extend([member, number, 8 * at]);
        }
        let number = self.add(name, STRUCT << 24 | members.len() as u32, bytes, &rest);
        self.by_name.insert(called.into(), number);
        number
    }

    /// The whole description.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = BEGIN.to_vec();
        let lengths = [0, self.types.len() as u32, self.types.len() as u32, self.names.len() as u32];
        all.extend(lengths.iter().flat_map(|n| n.to_le_bytes()));
        assert_eq!(all.len(), HEADER);
        all.extend_from_slice(&self.types);
        all.extend_from_slice(&self.names);
        all
    }
}

/// Where a processor's variables have its task.
pub const CURRENT: u64 = 0x1000;

/// The types of a kernel. Places are made up.
pub fn types() -> Types {
    let mut t = Types::new();
    let mut add = |name: &str, members: &[Member<'_>]| t.structure(name, name, 0x200, members);
    add(
        "task_struct",
        &[
            ("pid", 0x10, Ok(4)),
            ("tgid", 0x14, Ok(4)),
            ("comm", 0x20, Ok(16)),
            ("start_time", 0x30, Ok(8)),
            ("real_parent", 0x38, Ok(8)),
            ("mm", 0x40, Ok(8)),
            ("files", 0x48, Ok(8)),
        ],
    );
    add("files_struct", &[("fdt", 0x20, Ok(8))]);
    add("fdtable", &[("max_fds", 0, Ok(4)), ("fd", 8, Ok(8))]);
    add("atomic_long_t", &[("counter", 0, Ok(8))]);
    add("file", &[("f_inode", 0x20, Ok(8)), ("private_data", 0x28, Ok(8)), ("f_count", 0x38, Err("atomic_long_t"))]);
    add("inode", &[("i_mode", 0, Ok(2)), ("i_ino", 0x40, Ok(8))]);
    add("socket", &[("sk", 0x18, Ok(8))]);
    add("socket_alloc", &[("socket", 0, Err("socket")), ("vfs_inode", 0x80, Err("inode"))]);
    add("sock", &[("sk_protocol", 0x80, Ok(2)), ("sk_type", 0x82, Ok(2)), ("sk_socket", 0x88, Ok(8))]);
    add("tcp_sock", &[("write_seq", 0x100, Ok(4)), ("copied_seq", 0x104, Ok(4)), ("rcv_nxt", 0x108, Ok(4))]);
    add("unix_sock", &[("peer", 0x100, Ok(8)), ("addr", 0x108, Ok(8))]);
    add("unix_address", &[("len", 4, Ok(4)), ("name", 8, Ok(1))]);
    add("ns_common", &[("inum", 0x10, Ok(4))]);
    add("net", &[("ns", 0x40, Err("ns_common"))]);
    t.structure("", "unnamed addresses", 8, &[("skc_daddr", 0, Ok(4)), ("skc_rcv_saddr", 4, Ok(4))]);
    t.structure("", "unnamed arguments", 32, &[("arg_start", 8, Ok(8)), ("arg_end", 16, Ok(8))]);
    let mut add = |name: &str, members: &[Member<'_>]| t.structure(name, name, 0x200, members);
    add("mm_struct", &[("", 0x100, Err("unnamed arguments"))]);
    add(
        "sock_common",
        &[
            ("", 0, Err("unnamed addresses")),
            ("skc_dport", 0xc, Ok(2)),
            ("skc_num", 0xe, Ok(2)),
            ("skc_family", 0x10, Ok(2)),
            ("skc_state", 0x12, Ok(1)),
            ("skc_flags", 0x28, Ok(8)),
            ("skc_net", 0x30, Ok(8)),
            ("skc_v6_daddr", 0x38, Ok(16)),
            ("skc_v6_rcv_saddr", 0x48, Ok(16)),
        ],
    );
    let pointer = t.add("", 2 << 24, 0, &[]);
    let variable = t.add("current_task", 14 << 24, pointer, &[1]);
    t.add(".data..percpu", 15 << 24 | 1, 0x2000, &[variable, CURRENT as u32, 8]);
    t
}

/// The made-up kernel's types, indexed.
pub fn btf() -> Btf {
    Btf::new(types().bytes()).expect("they are whole")
}

/// A guest's memory: pages that were written are there.
#[derive(Default)]
pub struct Made(RefCell<BTreeMap<u64, Vec<u8>>>);

impl Memory for Made {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let pages = self.0.borrow();
        into.iter_mut().enumerate().all(|(i, to)| {
            let at = at.wrapping_add(i as u64);
            pages.get(&(at / PAGE)).map(|page| *to = page[(at % PAGE) as usize]).is_some()
        })
    }
}

impl Made {
    /// Puts bytes there.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let mut pages = self.0.borrow_mut();
        for (i, byte) in bytes.iter().enumerate() {
            let at = at + i as u64;
            pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize])[(at % PAGE) as usize] = *byte;
        }
    }

    /// Puts a number there.
    pub fn word(&self, at: u64, word: u64) {
        self.write(at, &word.to_le_bytes());
    }

    /// A task at `at`, with a table of descriptors, whose process was made by that of `parent`.
    pub fn task(&self, at: u64, (tgid, tid): (u32, u32), comm: &str, parent: u64) {
        self.write(at, &[0; 0x800]);
        self.write(at + 0x10, &tid.to_le_bytes());
        self.write(at + 0x14, &tgid.to_le_bytes());
        self.write(at + 0x20, comm.as_bytes());
        self.word(at + 0x30, u64::from(tid) * 1000);
        self.word(at + 0x38, parent);
        self.word(at + 0x40, at + 0x200);
        self.word(at + 0x48, at + 0x400);
        self.word(at + 0x420, at + 0x500);
        self.write(at + 0x500, &64u32.to_le_bytes());
        self.word(at + 0x508, at + 0x600);
    }

    /// A task runs on the processor whose variables begin at `variables`.
    pub fn runs(&self, variables: u64, task: u64) {
        self.word(variables + CURRENT, task);
    }

    /// A descriptor of a task: a file of this kind, in memory from `file` on, with a socket's `sock` at `file + 0x400`.
    pub fn descriptor(&self, task: u64, descriptor: u64, file: u64, (mode, inode): (u16, u64)) -> u64 {
        let (its_inode, sock) = (file + 0x280, file + 0x400);
        self.write(file, &[0; 0x600]);
        self.word(task + 0x600 + 8 * descriptor, file);
        self.word(file + 0x20, its_inode);
        // the inode follows its socket
        self.word(file + 0x28, file + 0x200);
        self.word(file + 0x38, 1);
        self.write(its_inode, &mode.to_le_bytes());
        self.word(its_inode + 0x40, inode);
        self.word(file + 0x218, sock);
        self.word(sock + 0x88, file + 0x200);
        sock
    }

    /// A TCP socket of IPv4, connected from one port to the other on loopback.
    pub fn tcp(&self, sock: u64, (port, peer): (u16, u16), (state, written, copied): (u8, u32, u32)) {
        let loopback = [127, 0, 0, 1];
        let net = sock + 0x180;
        self.write(sock, &loopback);
        self.write(sock + 4, &loopback);
        self.write(sock + 0xc, &peer.to_be_bytes());
        self.write(sock + 0xe, &port.to_le_bytes());
        self.write(sock + 0x10, &2u16.to_le_bytes());
        self.write(sock + 0x12, &[state]);
        self.word(sock + 0x30, net);
        self.write(net + 0x50, &77u32.to_le_bytes());
        self.write(sock + 0x80, &6u16.to_le_bytes());
        self.write(sock + 0x82, &1u16.to_le_bytes());
        self.numbers(sock, written, copied);
    }

    /// TCP's next bytes: to be written, and to be read.
    pub fn numbers(&self, sock: u64, written: u32, copied: u32) {
        self.write(sock + 0x100, &written.to_le_bytes());
        self.write(sock + 0x104, &copied.to_le_bytes());
        self.write(sock + 0x108, &copied.to_le_bytes());
    }
}
