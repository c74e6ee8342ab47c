//! Which system calls move bytes or wait for them, by number and name on this architecture.

use wakepath_wire as w;

/// A system call of interest.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// As the kernel names its tracepoints.
    pub name: &'static str,
    /// Its number here.
    pub number: libc::c_long,
    /// What kind of call it is, `SC_…`.
    pub class: u8,
    /// Kernels may lack it.
    pub is_optional: bool,
}

const fn call(name: &'static str, number: libc::c_long, class: u8) -> Call {
    Call { name, number, class, is_optional: false }
}

/// The system calls of interest. `bind` is one where processes are selected by port.
pub fn calls() -> &'static [Call] {
    const CALLS: &[Call] = &[
        call("read", libc::SYS_read, w::SC_READ),
        call("readv", libc::SYS_readv, w::SC_READV),
        // on sockets and pipes these take no offset but "where it stands"
        call("preadv2", libc::SYS_preadv2, w::SC_READV),
        call("pwritev2", libc::SYS_pwritev2, w::SC_WRITEV),
        call("write", libc::SYS_write, w::SC_WRITE),
        call("writev", libc::SYS_writev, w::SC_WRITEV),
        call("sendto", libc::SYS_sendto, w::SC_SENDTO),
        call("sendmsg", libc::SYS_sendmsg, w::SC_SENDMSG),
        call("sendmmsg", libc::SYS_sendmmsg, w::SC_SENDMMSG),
        call("recvfrom", libc::SYS_recvfrom, w::SC_RECVFROM),
        call("recvmsg", libc::SYS_recvmsg, w::SC_RECVMSG),
        call("recvmmsg", libc::SYS_recvmmsg, w::SC_RECVMMSG),
        call("sendfile64", libc::SYS_sendfile, w::SC_SENDFILE),
        call("splice", libc::SYS_splice, w::SC_SPLICE),
        call("accept", libc::SYS_accept, w::SC_ACCEPT),
        call("accept4", libc::SYS_accept4, w::SC_ACCEPT),
        call("connect", libc::SYS_connect, w::SC_CONNECT),
        call("close", libc::SYS_close, w::SC_CLOSE),
        call("shutdown", libc::SYS_shutdown, w::SC_SHUTDOWN),
        #[cfg(target_arch = "x86_64")]
        call("epoll_wait", libc::SYS_epoll_wait, w::SC_EPOLL),
        call("epoll_pwait", libc::SYS_epoll_pwait, w::SC_EPOLL),
        call("epoll_pwait2", libc::SYS_epoll_pwait2, w::SC_EPOLL2),
        #[cfg(target_arch = "x86_64")]
        call("poll", libc::SYS_poll, w::SC_POLL),
        call("ppoll", libc::SYS_ppoll, w::SC_PPOLL),
        #[cfg(target_arch = "x86_64")]
        call("select", libc::SYS_select, w::SC_SELECT),
        call("pselect6", libc::SYS_pselect6, w::SC_PSELECT),
        // seen by what it does, not by its call
        Call { is_optional: true, ..call("io_uring_enter", libc::SYS_io_uring_enter, w::SC_IO_URING) },
        call("mmap", libc::SYS_mmap, w::SC_MMAP),
        call("bind", libc::SYS_bind, w::SC_BIND),
    ];
    CALLS
}
