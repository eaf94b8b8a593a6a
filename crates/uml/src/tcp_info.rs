//! The kernel's statistics of a TCP connection.

use std::os::fd::{AsFd, AsRawFd as _};

/// `struct tcp_info` of the kernel (`include/uapi/linux/tcp.h`), which is longer than that of the C library.
///
/// Fields that a kernel does not have are zero.
#[derive(Clone, Debug)]
pub struct TcpInfo([u8; 248]);

/// Defines getters of fields at fixed offsets.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $offset:literal;)*) => {
        impl TcpInfo {
            $($(#[$doc])*
            pub fn $name(&self) -> $kind {
                let field = self.0[$offset..].first_chunk().copied().unwrap_or_default();
                <$kind>::from_ne_bytes(field)
            })*
        }
    };
}

fields! {
    /// Smoothed round-trip time, us; zero before the first measurement.
    rtt: u32 = 68;
    /// Slow-start threshold, segments; 2^31 - 1 before the first reduction.
    ssthresh: u32 = 76;
    /// Congestion window, segments.
    cwnd: u32 = 80;
    /// Segments retransmitted.
    retransmitted: u32 = 100;
    /// Pacing rate, bytes per second.
    pacing_rate: u64 = 104;
    /// Payload bytes acknowledged.
    bytes_acked: u64 = 120;
    /// Payload bytes received in order.
    bytes_received: u64 = 128;
    /// Minimum round-trip time, us; 2^32 - 1 before the first measurement.
    min_rtt: u32 = 148;
    /// Segments with payload sent, including retransmissions.
    data_segments_out: u32 = 156;
    /// Segments that the receiver reported as marked.
    delivered_marked: u32 = 196;
    /// Retransmission timeouts.
    timeouts: u16 = 240;
}

impl TcpInfo {
    /// Reads the statistics of a connection; all zero on an error.
    pub fn of(socket: impl AsFd) -> TcpInfo {
        let mut bytes = [0; 248];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: both pointers are valid for writing, and `length` is the size of the buffer.
        unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            );
        }
        TcpInfo(bytes)
    }
}
