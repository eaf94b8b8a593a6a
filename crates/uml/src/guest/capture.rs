//! Captures the packets that leave a device into a pcap file with nanosecond timestamps.
//!
//! The kernel writes packets into a ring shared with this program (`packet(7)`, version 3), so a capture
//! needs no system call per packet.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use headway_units::Duration;

use super::{Failure, option, system};
use crate::plan::PlannedDirection;

/// Bytes kept of each packet: enough for all headers.
const SNAP: u32 = 128;
/// Number of blocks in the ring. The kernel hands a block over when it is full or after [`HAND_OVER`].
const BLOCKS: u32 = 32;
/// Size of a block in bytes.
const BLOCK: u32 = 1 << 18;
/// The longest time before the kernel hands a block over, in ms.
const HAND_OVER: u32 = 100;
/// After this time the kernel has handed over every packet.
pub(super) const DELAY: Duration = Duration::from_ms(3 * HAND_OVER as i64);
/// pcap file header: magic number for nanosecond timestamps, version 2.4, Ethernet.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, SNAP, 1];
/// `PACKET_OUTGOING` of `include/uapi/linux/if_packet.h`.
const OUTGOING: u8 = 4;

/// A running capture.
pub(super) struct Capture {
    socket: OwnedFd,
    ring: Ring,
    /// Index of the next block that the kernel hands over.
    next: u32,
    file: BufWriter<File>,
}

/// The memory shared with the kernel.
struct Ring(*mut u8);

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this size, and nothing else has a pointer into it.
        unsafe { libc::munmap(self.0.cast(), (BLOCKS * BLOCK) as usize) };
    }
}

impl Capture {
    /// Starts capturing what leaves into `direction`, into a file in `folder`.
    pub(super) fn new(
        direction: &PlannedDirection,
        name: &str,
        nodes: &[File],
        folder: &Path,
    ) -> Result<Capture, Failure> {
        system::enter(&nodes[direction.node])?;
        let failed = |error| Failure::of(format!("cannot capture at {}", direction.device), error);
        let (socket, ring) = open(&direction.device).map_err(failed)?;
        let mut file = BufWriter::with_capacity(1 << 20, File::create(folder.join(name)).map_err(failed)?);
        HEADER.iter().try_for_each(|word| file.write_all(&word.to_ne_bytes())).map_err(failed)?;
        Ok(Capture { socket, ring, next: 0, file })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Writes all blocks that the kernel has handed over.
    pub(super) fn work(&mut self) -> Result<(), Failure> {
        while self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0 {
            self.write_block().map_err(|error| Failure::of("cannot write a capture".to_owned(), error))?;
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
        Ok(())
    }

    /// Writes all remaining blocks; packets of the last [`DELAY`] may be missing.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.work()?;
        self.file.flush().map_err(|error| Failure::of("cannot write a capture".to_owned(), error))
    }

    fn block(&self) -> *mut libc::tpacket_block_desc {
        // SAFETY: `next` is the index of a block in the ring.
        unsafe { self.ring.0.add((self.next * BLOCK) as usize) }.cast()
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word is aligned, lives as long as the ring, and is only used as an atomic here.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.block()).hdr.bh1.block_status) }
    }

    fn write_block(&mut self) -> io::Result<()> {
        // SAFETY: the block is ours until its status says otherwise; its header has been
        // filled by the kernel.
        let header = unsafe { (*self.block()).hdr.bh1 };
        let mut place = header.offset_to_first_pkt as usize;
        for _ in 0..header.num_pkts {
            // SAFETY: the kernel's offsets stay within the block, and headers in it are aligned.
            let packet = unsafe { &*self.block().cast::<u8>().add(place).cast::<libc::tpacket3_hdr>() };
            // SAFETY: the address follows the header of the packet, aligned to 16 bytes.
            let kind = unsafe {
                let after = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
                (*self.block().cast::<u8>().add(place + after).cast::<libc::sockaddr_ll>()).sll_pkttype
            };
            if kind == OUTGOING {
                let length = packet.tp_snaplen as usize;
                // SAFETY: the packet's bytes lie within the block.
                let bytes = unsafe {
                    std::slice::from_raw_parts(
                        self.block().cast::<u8>().add(place + packet.tp_mac as usize),
                        length,
                    )
                };
                for word in [packet.tp_sec, packet.tp_nsec, packet.tp_snaplen, packet.tp_len] {
                    self.file.write_all(&word.to_ne_bytes())?;
                }
                self.file.write_all(bytes)?;
            }
            place += packet.tp_next_offset as usize;
        }
        Ok(())
    }
}

/// Opens a packet socket for a device, with its ring.
fn open(device: &str) -> io::Result<(OwnedFd, Ring)> {
    // SAFETY: takes no pointers. Without a protocol nothing is captured until the socket is bound.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the socket has just been opened, and nothing else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let keep = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: SNAP }];
    let filter = libc::sock_fprog { len: 1, filter: keep.as_ptr().cast_mut() };
    option::set(&socket, (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), filter)?;
    let version = libc::tpacket_versions::TPACKET_V3 as i32;
    option::set(&socket, (libc::SOL_PACKET, libc::PACKET_VERSION), version)?;
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK,
        tp_block_nr: BLOCKS,
        tp_frame_size: 2048,
        tp_frame_nr: BLOCK / 2048 * BLOCKS,
        tp_retire_blk_tov: HAND_OVER,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    option::set(&socket, (libc::SOL_PACKET, libc::PACKET_RX_RING), request)?;
    // SAFETY: the kernel chooses the place; size and protection are those of the ring.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            (BLOCKS * BLOCK) as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let ring = Ring(memory.cast());
    // User Mode Linux corrupts a ring that a child inherits, and programs are children.
    // SAFETY: the range is the mapping above.
    if unsafe { libc::madvise(memory, (BLOCKS * BLOCK) as usize, libc::MADV_DONTFORK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bit patterns of this plain structure are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = nix::net::if_::if_nametoindex(device)? as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to an address of this length.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((socket, ring))
}
