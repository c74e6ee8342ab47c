//! Which system calls move bytes or wait for them, by number on this architecture.

use wakepath_wire as w;

/// Class of each system call of interest.
pub fn classes() -> Vec<(libc::c_long, u8)> {
    vec![
        (libc::SYS_read, w::SC_READ),
        (libc::SYS_readv, w::SC_READV),
        // on sockets and pipes these take no offset but "where it stands"
        (libc::SYS_preadv2, w::SC_READV),
        (libc::SYS_pwritev2, w::SC_WRITEV),
        (libc::SYS_write, w::SC_WRITE),
        (libc::SYS_writev, w::SC_WRITEV),
        (libc::SYS_sendto, w::SC_SENDTO),
        (libc::SYS_sendmsg, w::SC_SENDMSG),
        (libc::SYS_sendmmsg, w::SC_SENDMMSG),
        (libc::SYS_recvfrom, w::SC_RECVFROM),
        (libc::SYS_recvmsg, w::SC_RECVMSG),
        (libc::SYS_recvmmsg, w::SC_RECVMMSG),
        (libc::SYS_sendfile, w::SC_SENDFILE),
        (libc::SYS_splice, w::SC_SPLICE),
        (libc::SYS_accept, w::SC_ACCEPT),
        (libc::SYS_accept4, w::SC_ACCEPT),
        (libc::SYS_connect, w::SC_CONNECT),
        (libc::SYS_close, w::SC_CLOSE),
        (libc::SYS_shutdown, w::SC_SHUTDOWN),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_epoll_wait, w::SC_EPOLL),
        (libc::SYS_epoll_pwait, w::SC_EPOLL),
        (libc::SYS_epoll_pwait2, w::SC_EPOLL2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_poll, w::SC_POLL),
        (libc::SYS_ppoll, w::SC_PPOLL),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_select, w::SC_SELECT),
        (libc::SYS_pselect6, w::SC_PSELECT),
        (libc::SYS_io_uring_enter, w::SC_IO_URING),
        (libc::SYS_mmap, w::SC_MMAP),
    ]
}
