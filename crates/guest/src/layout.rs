//! Where the guest's kernel keeps what is read of it.

use crate::btf::{Btf, Place};

/// Places of members, each in its struct.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// From the beginning of a processor's variables to the pointer to the task that it runs.
    pub current: u64,
    /// Of `task_struct`.
    pub task: TaskLayout,
    /// From a task to its file of a descriptor.
    pub file: FileLayout,
    /// Of sockets.
    pub socket: SocketLayout,
}

/// Members of `task_struct`, and of the memory that it leads to.
#[derive(Clone, Copy, Debug)]
pub struct TaskLayout {
    /// Its number.
    pub pid: Place,
    /// Its process's number.
    pub tgid: Place,
    /// Its name.
    pub comm: Place,
    /// When it began, ns of the guest's clock.
    pub start: Place,
    /// The process that made its process.
    pub parent: Place,
    /// Its address space, 0 = none.
    pub mm: Place,
    /// In `mm_struct`: where its command line begins.
    pub arguments: Place,
    /// And ends.
    pub arguments_end: Place,
}

/// Members that lead to a file, and of `file`.
#[derive(Clone, Copy, Debug)]
pub struct FileLayout {
    /// In `task_struct`.
    pub files: Place,
    /// In `files_struct`.
    pub table: Place,
    /// In `fdtable`: how many.
    pub count: Place,
    /// In `fdtable`: the pointers.
    pub pointers: Place,
    /// In `file`.
    pub inode: Place,
    /// In `file`: a socket's `socket`.
    pub private: Place,
    /// In `file`: how many refer to it, and the number that means one.
    pub refers: Option<(Place, u64)>,
    /// In `inode`.
    pub number: Place,
    /// In `inode`.
    pub mode: Place,
}

/// Members of sockets.
#[derive(Clone, Copy, Debug)]
pub struct SocketLayout {
    /// In `socket`.
    pub sock: Place,
    /// In `socket_alloc`: its inode, after its `socket`.
    pub inode: Place,
    /// In `sock`, as all that follow.
    pub family: Place,
    /// The state as TCP numbers it.
    pub state: Place,
    /// The local port, in the order of this machine.
    pub port: Place,
    /// The other end's, in the order of the network.
    pub peer_port: Place,
    /// The local address of IPv4.
    pub address: Place,
    /// The other end's.
    pub peer_address: Place,
    /// The local address of IPv6, if the kernel has that.
    pub address6: Option<Place>,
    /// The other end's.
    pub peer_address6: Option<Place>,
    /// What happened to it, a bit each.
    pub flags: Place,
    /// The network namespace.
    pub net: Place,
    /// In `net`: its number.
    pub net_number: Place,
    /// The protocol.
    pub protocol: Place,
    /// Stream or datagrams.
    pub kind: Place,
    /// The `socket` of a `sock`, 0 before it is accepted.
    pub socket: Place,
    /// In `tcp_sock`: the number of the next byte to be written.
    pub written: Place,
    /// In `tcp_sock`: the number of the next byte to be read.
    pub copied: Place,
    /// In `tcp_sock`: the number of the next byte to arrive.
    pub arrived: Place,
    /// In `unix_sock`: the other end.
    pub unix_peer: Place,
    /// In `unix_sock`: its name.
    pub unix_address: Place,
    /// In `unix_address`: bytes of the name with its family.
    pub name_bytes: Place,
    /// In `unix_address`: family and name.
    pub name: Place,
}

impl Layout {
    /// From a kernel's types; else the first member that it has not.
    ///
    /// # Errors
    /// The name of a member that is not there, or is a field of bits.
    pub fn of(btf: &Btf) -> Result<Layout, &'static str> {
        let current = btf
            .of_each_processor("current_task")
            .or_else(|| Some(btf.of_each_processor("pcpu_hot")? + btf.place("pcpu_hot", "current_task")?.at));
        Ok(Layout {
            current: current.ok_or("current_task")?,
            task: TaskLayout::of(btf)?,
            file: FileLayout::of(btf)?,
            socket: SocketLayout::of(btf)?,
        })
    }
}

/// A member of at most 16 bytes.
fn place(btf: &Btf, of: &str, member: &'static str) -> Result<Place, &'static str> {
    btf.place(of, member).filter(|p| (1..=16).contains(&p.bytes)).ok_or(member)
}

/// A member that holds a struct or an array: where it begins.
fn begin(btf: &Btf, of: &str, member: &'static str) -> Result<Place, &'static str> {
    btf.place(of, member).ok_or(member)
}

impl TaskLayout {
    fn of(btf: &Btf) -> Result<TaskLayout, &'static str> {
        let of = |member| place(btf, "task_struct", member);
        Ok(TaskLayout {
            pid: of("pid")?,
            tgid: of("tgid")?,
            comm: of("comm")?,
            start: of("start_time")?,
            parent: of("real_parent")?,
            mm: of("mm")?,
            arguments: place(btf, "mm_struct", "arg_start")?,
            arguments_end: place(btf, "mm_struct", "arg_end")?,
        })
    }
}

impl FileLayout {
    fn of(btf: &Btf) -> Result<FileLayout, &'static str> {
        let before_6_13 = || Some((btf.place("file", "f_count.counter")?, 1));
        Ok(FileLayout {
            files: place(btf, "task_struct", "files")?,
            table: place(btf, "files_struct", "fdt")?,
            count: place(btf, "fdtable", "max_fds")?,
            pointers: place(btf, "fdtable", "fd")?,
            inode: place(btf, "file", "f_inode")?,
            private: place(btf, "file", "private_data")?,
            refers: before_6_13().or_else(|| Some((btf.place("file", "f_ref.refcnt.counter")?, 0))),
            number: place(btf, "inode", "i_ino")?,
            mode: place(btf, "inode", "i_mode")?,
        })
    }
}

impl SocketLayout {
    fn of(btf: &Btf) -> Result<SocketLayout, &'static str> {
        let common = |member| place(btf, "sock_common", member);
        let sock = |member| place(btf, "sock", member);
        Ok(SocketLayout {
            sock: place(btf, "socket", "sk")?,
            inode: begin(btf, "socket_alloc", "vfs_inode")?,
            family: common("skc_family")?,
            state: common("skc_state")?,
            port: common("skc_num")?,
            peer_port: common("skc_dport")?,
            address: common("skc_rcv_saddr")?,
            peer_address: common("skc_daddr")?,
            address6: common("skc_v6_rcv_saddr").ok(),
            peer_address6: common("skc_v6_daddr").ok(),
            flags: common("skc_flags")?,
            net: common("skc_net")?,
            net_number: place(btf, "net", "ns.inum")?,
            protocol: sock("sk_protocol")?,
            kind: sock("sk_type")?,
            socket: sock("sk_socket")?,
            written: place(btf, "tcp_sock", "write_seq")?,
            copied: place(btf, "tcp_sock", "copied_seq")?,
            arrived: place(btf, "tcp_sock", "rcv_nxt")?,
            unix_peer: place(btf, "unix_sock", "peer")?,
            unix_address: place(btf, "unix_sock", "addr")?,
            name_bytes: place(btf, "unix_address", "len")?,
            name: begin(btf, "unix_address", "name")?,
        })
    }
}
