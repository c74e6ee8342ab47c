//! A process that does nothing but wait for the end of another, and then removes a file: also where that one was killed.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What `ps` shows of it.
const NAME: &std::ffi::CStr = c"wakepath-remove";

/// The waiting process. When this value is dropped, or the process that has it ends, the file goes.
pub(super) struct Remover {
    /// The end of a pipe that only this process has: when it closes, the other knows.
    pipe: Option<OwnedFd>,
    pid: libc::pid_t,
}

impl Remover {
    /// Starts it; `None` where the system has no room for another process: then the next recorder removes the file.
    pub fn start(path: &Path) -> Option<Remover> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let mut ends: [RawFd; 2] = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return None;
        }
        // SAFETY: descriptors that were just made, and nobody else's.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // SAFETY: the child only makes system calls, which need no lock that another thread may have held.
        match unsafe { libc::fork() } {
            -1 => None,
            0 => wait_and_remove(read.as_raw_fd(), &path),
            pid => Some(Remover { pipe: Some(write), pid }),
        }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.pipe = None;
        // SAFETY: a child of ours that nobody else waits for; it ends at once, since its pipe is closed.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The child: keeps nothing of its parent's but the pipe, and leaves its session, so that what ends the others passes it by.
fn wait_and_remove(pipe: RawFd, path: &CString) -> ! {
    // SAFETY: plain numbers, a C string, and one byte of room on this stack.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr(), 0, 0, 0);
        if pipe > 0 {
            libc::syscall(libc::SYS_close_range, 0, pipe - 1, 0);
        }
        if libc::syscall(libc::SYS_close_range, pipe + 1, libc::c_uint::MAX, 0) != 0 {
            // before Linux 5.9
            for fd in (0..1024).filter(|fd| *fd != pipe) {
                libc::close(fd);
            }
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let mut byte = 0u8;
        while libc::read(pipe, (&raw mut byte).cast(), 1) > 0 {}
        libc::unlink(path.as_ptr());
        libc::_exit(0);
    }
}
