//! Addresses of sockets.

use crate::sys;

/// A socket address as the kernel gave it.
pub struct Address {
    bytes: [u8; 128],
    len: usize,
}

impl Address {
    /// The socket's own.
    pub fn local(fd: i32) -> Address {
        Address::ask(libc::SYS_getsockname, fd)
    }

    /// The other end's.
    pub fn remote(fd: i32) -> Address {
        Address::ask(libc::SYS_getpeername, fd)
    }

    /// One that the program gave.
    ///
    /// # Safety
    /// `at` is null or has `len` bytes.
    pub unsafe fn given(at: *const u8, len: usize) -> Address {
        let mut bytes = [0u8; 128];
        let len = if at.is_null() { 0 } else { len.min(128) };
        if len > 0 {
            // SAFETY: the caller's promise; at most 128 bytes go
            unsafe { core::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), len) };
        }
        Address { bytes, len }
    }

    fn ask(nr: libc::c_long, fd: i32) -> Address {
        let mut bytes = [0u8; 128];
        let mut len: libc::socklen_t = 128;
        // SAFETY: the kernel writes at most `len` bytes
        let r = unsafe { sys::call(nr, [fd as usize, bytes.as_mut_ptr() as usize, &raw mut len as usize, 0, 0, 0]) };
        Address { bytes, len: if r == 0 { (len as usize).min(128) } else { 0 } }
    }

    /// `AF_…`, 0 where there is none.
    pub fn family(&self) -> u16 {
        if self.len < 2 { 0 } else { u16::from_ne_bytes([self.bytes[0], self.bytes[1]]) }
    }

    /// Address and port.
    pub fn inet(&self) -> ([u8; 16], u16) {
        let mut a = [0u8; 16];
        match i32::from(self.family()) {
            libc::AF_INET => a[..4].copy_from_slice(&self.bytes[4..8]),
            libc::AF_INET6 => a.copy_from_slice(&self.bytes[8..24]),
            _ => return (a, 0),
        }
        (a, u16::from_be_bytes([self.bytes[2], self.bytes[3]]))
    }

    /// A UNIX socket's name: a path, or a zero byte and what follows it; empty where it has none.
    pub fn unix_name(&self) -> &[u8] {
        let name = self.bytes.get(2..self.len).unwrap_or(&[]);
        match name.first() {
            Some(0) | None => name,
            Some(_) => &name[..name.iter().position(|&b| b == 0).unwrap_or(name.len())],
        }
    }
}
