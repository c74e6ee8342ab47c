//! A process per connection: a few accepting processes share the listener, each forks for what it accepts.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use crate::calls::Caller;
use crate::job::Context;
use crate::net;

/// Forks; `run` is what the child does, and the child ends with it.
fn fork(run: impl FnOnce()) -> io::Result<()> {
    let parent = std::process::id();
    // SAFETY: this process has a single thread, so the child may go on with everything it inherits.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            net::die_with(parent);
            run();
            // SAFETY: ends the child without running what belongs to the parent (exit handlers, buffers).
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

/// Serves for ever.
pub fn serve(context: &Arc<Context>, listener: &TcpListener) -> io::Result<()> {
    for _ in 0..context.workers(2) {
        fork(|| accept_and_fork(context, listener))?;
    }
    loop {
        // SAFETY: waits for a signal, nothing else.
        unsafe { libc::pause() };
    }
}

fn accept_and_fork(context: &Arc<Context>, listener: &TcpListener) {
    // SAFETY: no handler is installed; children are reaped by the kernel.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    loop {
        let stream = net::accept(listener);
        let served = fork(|| {
            // An error here is the peer's doing: it sees the connection end.
            let _ = Caller::new(context, None).serve(&stream);
        });
        if let Err(error) = served {
            eprintln!("vapp: fork: {error}");
        }
    }
}
