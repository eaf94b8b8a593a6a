//! The congestion header, decoded.

/// Version of the header of XCP (xcp-rcp 1.4).
pub const VERSION_XCP: u8 = 2;
/// Version of the header of RCP, which is not published (xcp-rcp 1.5).
pub const VERSION_RCP: u8 = 15;
/// The rate that a sender of RCP asks for if it takes any (xcp-rcp 1.5).
pub const ANY_RATE: u32 = u32::MAX;

/// What fields of a header have a meaning (xcp-rcp 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// All of them.
    Standard = 1,
    /// All but RTT, X and feedback: of an ACK that asks for nothing.
    Minimal = 2,
}

/// A congestion header, in the byte order of the machine.
///
/// Version and format are as they came, known or not: routers reject what they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// The sender's RTT in s with 28 fraction bits; 0 if unknown.
    pub rtt: u32,
    /// Time between the sender's packets, the same unit.
    pub x: u32,
    /// XCP: the change of throughput that the sender asks for and routers lower, two's complement.
    /// RCP: the rate. In B/s.
    pub feedback: u32,
    /// What the receiver returns, the same unit; routers leave it alone.
    pub reverse: u32,
    /// Protocol number of the next header.
    pub protocol: u8,
    /// [`VERSION_XCP`], [`VERSION_RCP`] or another.
    pub version: u8,
    /// One of [`Format`], or another.
    pub format: u8,
    /// 0.
    pub unused: u8,
}

impl Header {
    /// Returns the header of a TCP segment with all fields 0.
    pub const fn new(version: u8, format: Format) -> Header {
        Header {
            rtt: 0,
            x: 0,
            feedback: 0,
            reverse: 0,
            protocol: 6,
            version,
            format: format as u8,
            unused: 0,
        }
    }

    /// Returns XCP's change of throughput in B/s.
    pub const fn delta(&self) -> i32 {
        self.feedback.cast_signed()
    }

    /// Returns RCP's rate in B/s.
    pub const fn rate(&self) -> u32 {
        self.feedback
    }
}
