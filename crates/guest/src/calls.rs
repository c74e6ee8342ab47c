//! Which system calls of x86-64 are looked at.

use wakepath_wire as w;

/// Where a call has the bytes that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// (descriptor, buffer, length).
    Buffer,
    /// (descriptor, vector, count).
    Vector,
    /// (descriptor, buffer, length, flags, address, its length or where that is).
    Address,
    /// (descriptor, message, flags).
    Message,
    /// (descriptor, messages, count, flags).
    Messages,
    /// In no buffer of the program.
    Kernel,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It moves bytes.
    Move {
        /// Out of the program.
        sent: bool,
        /// Where they are.
        by: By,
    },
    /// It moves bytes from one descriptor to another: which arguments those are.
    Between {
        /// The one that is read.
        from: usize,
        /// The one that is written.
        to: usize,
    },
    /// accept, accept4.
    Accept,
    /// connect.
    Connect,
    /// listen.
    Listen,
    /// close.
    Close,
    /// shutdown.
    Shutdown,
    /// It waits for descriptors to be ready: `SC_…`.
    Poll(u8),
    /// It makes a task.
    Fork,
    /// It begins another program.
    Exec,
    /// It ends the thread.
    Exit,
    /// It ends the process.
    ExitAll,
    /// prctl, which may name the thread.
    Control,
    /// It sets up io_uring.
    IoUring,
}

/// clone.
pub const CLONE: u64 = 56;
/// clone3.
pub const CLONE3: u64 = 435;

/// What the call of this number does, if it is looked at.
pub fn of(number: u64) -> Option<Call> {
    let moves = |sent, by| Call::Move { sent, by };
    Some(match number {
        0 => moves(false, By::Buffer),
        19 => moves(false, By::Vector),
        45 => moves(false, By::Address),
        47 => moves(false, By::Message),
        299 => moves(false, By::Messages),
        1 => moves(true, By::Buffer),
        20 => moves(true, By::Vector),
        44 => moves(true, By::Address),
        46 => moves(true, By::Message),
        307 => moves(true, By::Messages),
        40 => Call::Between { from: 1, to: 0 },
        275 => Call::Between { from: 0, to: 2 },
        43 | 288 => Call::Accept,
        42 => Call::Connect,
        50 => Call::Listen,
        3 => Call::Close,
        48 => Call::Shutdown,
        232 | 281 => Call::Poll(w::SC_EPOLL),
        441 => Call::Poll(w::SC_EPOLL2),
        7 => Call::Poll(w::SC_POLL),
        271 => Call::Poll(w::SC_PPOLL),
        23 => Call::Poll(w::SC_SELECT),
        270 => Call::Poll(w::SC_PSELECT),
        CLONE | 57 | 58 | CLONE3 => Call::Fork,
        59 | 322 => Call::Exec,
        60 => Call::Exit,
        231 => Call::ExitAll,
        157 => Call::Control,
        425 => Call::IoUring,
        _ => return None,
    })
}
