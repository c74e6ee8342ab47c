//! One packet socket and the ring that it shares with the kernel.

use crate::CaptureError;
use crate::packets::socket;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel hands a part of the ring over after this time, full or not, ms.
const RETIRE_MS: u32 = 10;
/// Largest packet that need fit into a block: what offloads make of many, and its header.
const BLOCK_MIN: usize = 128 << 10;
/// Largest block: many of them, so that the kernel has one to write to while another is read.
const BLOCK_MAX: usize = 1 << 20;
/// Length of a VLAN tag, for which room is left before each packet.
const TAG_BYTES: usize = 4;
/// Length of the two addresses that a VLAN tag follows.
const ADDRESSES_BYTES: usize = 12;
/// Where the kernel puts the link-layer address, after the packet's header.
const ADDRESS_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// What packets can be had of an interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All.
    Up,
    /// None, until it is up.
    Down,
    /// None, until there is one of that name.
    Gone,
}

/// The socket of one interface, or of all.
pub struct Ring {
    pub socket: OwnedFd,
    /// The kernel's index of its interface; 0 = all.
    pub index: i32,
    /// Of the interface, when it was last looked at.
    pub state: State,
    promiscuous: bool,
    memory: NonNull<u8>,
    block_bytes: usize,
    blocks: usize,
    /// The block that is read, or will be read next.
    block: usize,
    /// Of the block that is being read: the next packet's offset and time stamp, and how many are left. None = not begun.
    open: Option<Cursor>,
    /// The block's last packet was taken; the block is given back with the next call.
    is_read: bool,
    /// Blocks that may still be read in this round.
    blocks_left: usize,
}

struct Cursor {
    at: usize,
    stamp: u64,
    left: u32,
}

/// A packet as it lies in the ring.
pub struct Frame<'a> {
    /// Wall-clock time, ns.
    pub stamp: u64,
    /// The kernel's index of the interface.
    pub interface: i32,
    /// Link type of the interface, `ARPHRD_…`.
    pub hardware: u16,
    /// `PACKET_HOST`, `PACKET_OUTGOING` and so on.
    pub kind: u8,
    /// Protocol after the link layer, `ETH_P_…`.
    pub protocol: u16,
    length: u32,
    tag: Option<[u8; TAG_BYTES]>,
    network_at: usize,
    /// Room for a tag, then the packet.
    bytes: &'a mut [u8],
}

impl<'a> Frame<'a> {
    /// The packet with the VLAN tag that the kernel took off, and its length on the wire.
    pub fn with_tag(&mut self) -> (&[u8], u32) {
        match self.tag {
            Some(tag) if self.bytes.len() >= TAG_BYTES + ADDRESSES_BYTES => {
                self.bytes.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
                self.bytes[ADDRESSES_BYTES..ADDRESSES_BYTES + TAG_BYTES].copy_from_slice(&tag);
                (&*self.bytes, self.length.saturating_add(TAG_BYTES as u32))
            }
            _ => (&self.bytes[TAG_BYTES..], self.length),
        }
    }

    /// The packet without its link layer, and its length on the wire.
    pub fn without_link_layer(&self) -> (&[u8], u32) {
        let packet = &self.bytes[TAG_BYTES..];
        let skipped = self.network_at.min(packet.len());
        (&packet[skipped..], self.length.saturating_sub(skipped as u32))
    }
}

impl Ring {
    /// Opens a socket for one interface, or for all, with a ring of about `bytes`. `program` is its filter.
    pub fn open(
        interface: Option<&str>,
        bytes: usize,
        program: &[libc::sock_filter],
        promiscuous: bool,
    ) -> Result<Ring, CaptureError> {
        let on = interface.unwrap_or("any");
        let failed = |what: &str, e: io::Error| CaptureError::Packets(format!("capturing on {on}: {what}: {e}"));
        // no protocol yet: nothing comes before the filter is there
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(|e| denied(on, e))?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(|e| failed("this kernel has no TPACKET_V3 (Linux 3.2)", e))?;
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RESERVE, &(TAG_BYTES as i32))
            .map_err(|e| failed("leaving room for VLAN tags", e))?;
        attach(&socket, program).map_err(|e| failed("attaching the filter", e))?;

        let block_bytes = (bytes / 32).clamp(BLOCK_MIN, BLOCK_MAX).next_power_of_two();
        let blocks = (bytes / block_bytes).max(2);
        let too_much = |e: io::Error| {
            failed(&format!("no memory for a ring of {} bytes; give a smaller one", blocks * block_bytes), e)
        };
        let number = |n: usize| u32::try_from(n).map_err(|_| too_much(io::Error::from_raw_os_error(libc::ENOMEM)));
        // frames mean nothing to TPACKET_V3, but the kernel wants their number to be right
        let request = libc::tpacket_req3 {
            tp_block_size: number(block_bytes)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(block_bytes)?,
            tp_frame_nr: number(blocks)?,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket::set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(too_much)?;
        // SAFETY: a new mapping of the socket's ring, whose length is the ring's.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * block_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        let memory = match NonNull::new(memory.cast::<u8>()) {
            Some(p) if memory != libc::MAP_FAILED => p,
            _ => return Err(failed("mapping the ring", io::Error::last_os_error())),
        };
        let mut ring = Ring {
            socket,
            index: 0,
            state: State::Up,
            promiscuous,
            memory,
            block_bytes,
            blocks,
            block: 0,
            open: None,
            is_read: false,
            blocks_left: blocks,
        };
        ring.bind(interface).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => {
                CaptureError::Packets(format!("there is no interface {on}; `ip link` names those that are there"))
            }
            _ => failed("binding", e),
        })?;
        Ok(ring)
    }

    /// From now on takes packets of the interface, or of all.
    pub fn bind(&mut self, interface: Option<&str>) -> io::Result<()> {
        self.index = match interface {
            Some(name) => socket::index_of(&self.socket, name)?,
            None => 0,
        };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: self.index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address is a live sockaddr_ll of the length given.
        let r = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if r != 0 {
            return Err(io::Error::last_os_error());
        }
        if self.promiscuous && self.index != 0 {
            let membership = libc::packet_mreq {
                mr_ifindex: self.index,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            socket::set(&self.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        }
        Ok(())
    }

    /// Whether the interface that it is bound to is still there under that name.
    pub fn has_interface(&self, name: &str) -> bool {
        socket::index_of(&self.socket, name).is_ok_and(|index| index == self.index)
    }

    /// Whether a packet is there.
    pub fn is_ready(&mut self) -> bool {
        self.open.is_some() || self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// From now on at most the whole ring is read once, so that a reader who is too slow comes back now and then.
    pub fn begin_round(&mut self) {
        self.blocks_left = self.blocks;
    }

    /// Wall-clock time of the next packet, if one is there.
    pub fn next_stamp(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.is_read) {
            self.give_back();
        }
        while self.open.is_none() && self.blocks_left > 0 {
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return None;
            }
            self.blocks_left -= 1;
            let (left, first) = {
                // SAFETY: the block is ours until its status is given back; any bytes are a valid header.
                let header = unsafe { self.descriptor().read().hdr.bh1 };
                (header.num_pkts, header.offset_to_first_pkt as usize)
            };
            match self.stamp_at(first) {
                Some(stamp) if left > 0 => self.open = Some(Cursor { at: first, stamp, left }),
                _ => self.give_back(),
            }
        }
        self.open.as_ref().map(|c| c.stamp)
    }

    /// Takes the next packet, which [`Self::next_stamp`] has told of. It is valid until the next call.
    pub fn take(&mut self) -> Option<Frame<'_>> {
        let Cursor { at, stamp, left } = self.open.take()?;
        let header = self.header_at(at)?;
        let (base, block_bytes) = (self.block_base(), self.block_bytes);
        let next = at + header.tp_next_offset as usize;
        let following = (left > 1 && header.tp_next_offset > 0).then(|| self.stamp_at(next)).flatten();
        match following {
            Some(stamp) => self.open = Some(Cursor { at: next, stamp, left: left - 1 }),
            None => self.is_read = true,
        }
        let from = at + usize::from(header.tp_mac);
        let to = from.saturating_add(header.tp_snaplen as usize).min(block_bytes);
        if from < at + ADDRESS_AT + TAG_BYTES || from > to {
            return None;
        }
        // SAFETY: both lie in the block, which is ours until the next call of `next_stamp` gives it back; nothing else of this
        // process points into it. The address is behind the header, whose place was checked.
        let (address, bytes) = unsafe {
            let address = base.add(at + ADDRESS_AT).cast::<libc::sockaddr_ll>().read_unaligned();
            (address, std::slice::from_raw_parts_mut(base.add(from - TAG_BYTES), to - from + TAG_BYTES))
        };
        let tag = (header.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let protocol = if known { header.hv1.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            let ([a, b], [c, d]) = (protocol.to_be_bytes(), (header.hv1.tp_vlan_tci as u16).to_be_bytes());
            [a, b, c, d]
        });
        Some(Frame {
            stamp,
            interface: address.sll_ifindex,
            hardware: address.sll_hatype,
            kind: address.sll_pkttype,
            protocol: u16::from_be(address.sll_protocol),
            length: header.tp_len,
            tag,
            network_at: usize::from(header.tp_net.saturating_sub(header.tp_mac)),
            bytes,
        })
    }
    fn block_base(&self) -> *mut u8 {
        // SAFETY: `block` is less than `blocks`, so this lies in the mapping.
        unsafe { self.memory.as_ptr().add(self.block * self.block_bytes) }
    }

    fn descriptor(&self) -> *const libc::tpacket_block_desc {
        self.block_base().cast()
    }

    /// The word by which the kernel and this process give the block to each other.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the descriptor is at the start of the block, which the kernel aligns to pages; the word is only used as an atomic.
        unsafe { AtomicU32::from_ptr((&raw const (*self.descriptor()).hdr.bh1.block_status).cast_mut()) }
    }

    fn give_back(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % self.blocks;
    }

    /// A packet's header, if it lies in the block.
    fn header_at(&self, at: usize) -> Option<libc::tpacket3_hdr> {
        if at < size_of::<libc::tpacket_block_desc>()
            || at.checked_add(ADDRESS_AT + size_of::<libc::sockaddr_ll>())? > self.block_bytes
        {
            return None;
        }
        // SAFETY: it lies in the block, which is ours; any bytes are a valid header.
        Some(unsafe { self.block_base().add(at).cast::<libc::tpacket3_hdr>().read_unaligned() })
    }

    fn stamp_at(&self, at: usize) -> Option<u64> {
        let header = self.header_at(at)?;
        Some(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length; nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * self.block_bytes) };
    }
}

// SAFETY: the mapping belongs to this value alone, and is only reached through it.
unsafe impl Send for Ring {}

fn attach(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // the kernel copies it and writes nothing
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    socket::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn denied(on: &str, e: io::Error) -> CaptureError {
    let remedy = match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "Run as root, or give the binary the right, once: sudo setcap cap_net_raw,cap_net_admin+ep $(which wakepath)"
        }
        Some(libc::EAFNOSUPPORT) => {
            "This kernel has no packet sockets (CONFIG_PACKET); `modprobe af_packet` loads them"
        }
        _ => "`wakepath doctor` tells what this host allows",
    };
    CaptureError::Packets(format!("capturing on {on}: no packet socket: {e}. {remedy}"))
}
