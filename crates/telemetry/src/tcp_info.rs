//! The kernel's statistics of a TCP connection.

use std::os::fd::{AsFd, AsRawFd as _};

/// Bytes of the structure that are read; what later kernels have behind them is left out.
const LENGTH: usize = 248;
/// Size of the largest `union tcp_cc_info`, in words.
const CONTROLLER_WORDS: usize = 5;

/// `struct tcp_info` of the kernel (`include/uapi/linux/tcp.h`), which is longer than that of the C library.
///
/// Every kernel may add fields at the end. Those that a kernel does not have are zero, or `None` where zero
/// would say something.
#[derive(Clone, Debug)]
pub struct TcpInfo {
    bytes: [u8; LENGTH],
    /// What the kernel has filled.
    length: usize,
}

/// Defines getters of fields at fixed offsets.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $offset:literal;)*) => {
        impl TcpInfo {
            $($(#[$doc])*
            pub fn $name(&self) -> $kind {
                <$kind>::from_ne_bytes(self.field($offset))
            })*
        }
    };
}

fields! {
    /// Maximum segment size of what is sent, bytes.
    send_mss: u32 = 16;
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
    /// Time in which there was something to send or to be acknowledged, us.
    busy_us: u64 = 168;
    /// Of that, the time in which the peer's window was full, us.
    window_limited_us: u64 = 176;
    /// Of that, the time in which the own buffer was full, us.
    buffer_limited_us: u64 = 184;
    /// Segments that the receiver reported as marked.
    delivered_marked: u32 = 196;
    /// Retransmission timeouts.
    timeouts: u16 = 240;
}

impl TcpInfo {
    /// Takes the statistics as a kernel gives them.
    pub fn from_bytes(kernel: &[u8]) -> TcpInfo {
        let length = kernel.len().min(LENGTH);
        let mut bytes = [0; LENGTH];
        bytes[..length].copy_from_slice(&kernel[..length]);
        TcpInfo { bytes, length }
    }

    /// Reads the statistics of a connection; all zero on an error.
    pub fn of(socket: impl AsFd) -> TcpInfo {
        let mut bytes = [0; LENGTH];
        let filled = read(&socket, libc::TCP_INFO, &mut bytes);
        TcpInfo::from_bytes(&bytes[..filled])
    }

    /// Reads what the controller of a connection tells of itself (`TCP_CC_INFO`), in words of its own
    /// meaning; all zero if it tells nothing.
    pub fn of_controller(socket: impl AsFd) -> [u32; CONTROLLER_WORDS] {
        let mut bytes = [0; size_of::<[u32; CONTROLLER_WORDS]>()];
        read(&socket, libc::TCP_CC_INFO, &mut bytes);
        let (words, _) = bytes.as_chunks();
        std::array::from_fn(|word| u32::from_ne_bytes(words[word]))
    }

    /// The window that the peer has advertised last, in bytes: what this end sees of it.
    /// `None` before Linux 5.4.
    pub fn window_seen(&self) -> Option<u32> {
        self.later(228)
    }

    /// The window that this end has advertised last, in bytes. `None` before Linux 6.2.
    pub fn window_told(&self) -> Option<u32> {
        self.later(232)
    }

    fn later(&self, offset: usize) -> Option<u32> {
        (self.length >= offset + 4).then(|| u32::from_ne_bytes(self.field(offset)))
    }

    fn field<const SIZE: usize>(&self, offset: usize) -> [u8; SIZE] {
        self.bytes.get(offset..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; SIZE])
    }
}

/// Fills `bytes` with an option of TCP; returns how many the kernel wrote, 0 on an error.
fn read(socket: &impl AsFd, option: libc::c_int, bytes: &mut [u8]) -> usize {
    let mut length = bytes.len() as libc::socklen_t;
    let at = socket.as_fd().as_raw_fd();
    // SAFETY: both pointers are valid for writing, and `length` is the size of the buffer.
    let result = unsafe {
        libc::getsockopt(at, libc::IPPROTO_TCP, option, bytes.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { bytes.len().min(length as usize) } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection within this host.
    fn pair() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [there, listener.accept().unwrap().0]
    }

    #[test]
    fn an_end_sees_the_window_that_the_other_one_tells() {
        let [mut sender, mut receiver] = pair();
        sender.write_all(&[1; 10_000]).unwrap();
        receiver.read_exact(&mut [0; 10_000]).unwrap();
        // The answer acknowledges all of it, and has the window.
        receiver.write_all(&[2]).unwrap();
        sender.read_exact(&mut [0]).unwrap();
        let (sent, received) = (TcpInfo::of(&sender), TcpInfo::of(&receiver));
        // The SYN counts as a byte.
        assert_eq!((sent.bytes_acked(), received.bytes_received()), (10_001, 10_000));
        let (Some(told), Some(seen)) = (received.window_told(), sent.window_seen()) else {
            println!("SKIPPED: this kernel does not tell the windows");
            return;
        };
        assert!(told > 10_000 && seen == told, "told {told}, seen {seen}");
    }

    #[test]
    fn fields_that_a_kernel_does_not_have_are_none_or_zero() {
        let all: Vec<u8> = (0..LENGTH as u8).chain([9; 30]).collect();
        let info = TcpInfo::from_bytes(&all);
        assert_eq!(info.rtt(), u32::from_ne_bytes([68, 69, 70, 71]));
        assert_eq!(info.window_seen(), Some(u32::from_ne_bytes([228, 229, 230, 231])));
        assert_eq!(info.window_told(), Some(u32::from_ne_bytes([232, 233, 234, 235])));
        for (length, seen, told) in
            [(236, true, true), (235, true, false), (231, false, false), (0, false, false)]
        {
            let info = TcpInfo::from_bytes(&all[..length]);
            assert_eq!(
                (info.window_seen().is_some(), info.window_told().is_some()),
                (seen, told),
                "{length}"
            );
        }
        assert_eq!(TcpInfo::from_bytes(&all[..70]).bytes_acked(), 0);
    }
}
