//! The kernel's ring of captured packets (TPACKET_V3), mapped into this process.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::option;

/// Blocks of the ring, and bytes of a block: 16 MB hold 50 000 packets of 320 bytes, that is 100 ms at 500
/// 000 a second. At low rates most of each block stays empty, and the ring holds what arrives in [`BLOCKS`]
/// times [`RETIRE`], 1.3 s.
const BLOCKS: usize = 64;
const BLOCK: usize = 1 << 18;
/// After this time the kernel hands over a block that is not full, ms: the delay of results,
/// and not of time stamps.
const RETIRE: u32 = 20;
/// The frame size that the kernel wants to know; in this version of the ring packets take what they need.
const FRAME: u32 = 2_048;

/// A packet in the ring.
pub(super) struct Frame {
    /// Where its IP header is in the ring, and the bytes kept.
    at: usize,
    kept: usize,
    /// Its original length from the IP header on.
    pub(super) length: u32,
    pub(super) seconds: u32,
    pub(super) nanoseconds: u32,
    /// `sll_pkttype`.
    pub(super) kind: u8,
    /// The number of its interface, and that interface's kind (`sll_hatype`).
    pub(super) interface: u32,
    pub(super) hardware: u16,
}

#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    block: usize,
    /// Packets left in the block, and where the next one begins; `None` while the block is the kernel's.
    left: Option<(u32, usize)>,
}

impl Ring {
    /// Creates the ring of a packet socket and maps it.
    pub(super) fn new(fd: BorrowedFd<'_>) -> io::Result<Ring> {
        option(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME,
            tp_frame_nr: (BLOCKS * BLOCK) as u32 / FRAME,
            tp_retire_blk_tov: RETIRE,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping of the socket's ring, which has this length.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BLOCKS * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory =
            NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("the ring is at address 0"))?;
        Ok(Ring { memory, block: 0, left: None })
    }

    /// Returns the next packet; `None` if the kernel has not handed over any.
    pub(super) fn next(&mut self) -> Option<Frame> {
        loop {
            match self.left {
                Some((0, _)) => {
                    self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
                    self.block = (self.block + 1) % BLOCKS;
                    self.left = None;
                }
                Some((left, at)) => {
                    let (frame, next) = self.frame(at);
                    self.left = Some((left - 1, next));
                    return Some(frame);
                }
                None => {
                    if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                        return None;
                    }
                    let start = self.block * BLOCK;
                    // SAFETY: every block starts with a descriptor, and this one belongs to us now.
                    let header = unsafe {
                        let block = self.memory.add(start).cast::<libc::tpacket_block_desc>();
                        (*block.as_ptr()).hdr.bh1
                    };
                    self.left = Some((header.num_pkts, start + header.offset_to_first_pkt as usize));
                }
            }
        }
    }

    /// Returns the bytes kept of a packet that was returned last.
    pub(super) fn bytes(&self, frame: &Frame) -> &[u8] {
        // SAFETY: the range was checked against the ring, and its block stays ours until the next
        // packet is asked for.
        unsafe { std::slice::from_raw_parts(self.memory.add(frame.at).as_ptr(), frame.kept) }
    }

    /// Reads a packet's header; returns where the next one is, too.
    fn frame(&self, at: usize) -> (Frame, usize) {
        let size = BLOCKS * BLOCK;
        let at = at.min(size - libc::TPACKET3_HDRLEN);
        // SAFETY: header and link-layer address are within the ring, aligned, and belong to
        // us with their block.
        let (header, address) = unsafe {
            let header = self.memory.add(at).cast::<libc::tpacket3_hdr>();
            let address = self.memory.add(at + libc::TPACKET_ALIGN(size_of::<libc::tpacket3_hdr>()));
            (header.read(), address.cast::<libc::sockaddr_ll>().read())
        };
        // In a socket without link-layer headers the packet begins with its network header.
        let start = (at + usize::from(header.tp_net)).min(size);
        let kept = (header.tp_snaplen as usize).min(size - start);
        let frame = Frame {
            at: start,
            kept,
            length: header.tp_len,
            seconds: header.tp_sec,
            nanoseconds: header.tp_nsec,
            kind: address.sll_pkttype,
            interface: address.sll_ifindex as u32,
            hardware: address.sll_hatype,
        };
        (frame, at + header.tp_next_offset as usize)
    }

    /// Returns the status of the current block.
    fn status(&self) -> &AtomicU32 {
        let offset =
            offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: the status is an aligned 32-bit number within the ring, which kernel and
        // process change atomically.
        unsafe { AtomicU32::from_ptr(self.memory.add(self.block * BLOCK + offset).cast().as_ptr()) }
    }
}

// SAFETY: the memory is mapped for the process and belongs to this value alone; which thread
// reads it does not matter.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of this address and length is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BLOCKS * BLOCK) };
    }
}
