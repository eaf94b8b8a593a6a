//! The record of a control interval.

use crate::plain::{self, Plain};

/// What is known at the end of a control interval: the records of XCP-b and RCP, and what the other laws add
/// (xcp-rcp 1.6).
///
/// "The fraction" is one of 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// End of the interval, in ns.
    pub time: u64,
    /// Its length, in ns.
    pub interval: u64,
    /// Average RTT d, in ns.
    pub average_rtt: u64,
    /// Bytes that arrived, without overhead.
    pub input_bytes: u64,
    /// Packets that arrived.
    pub input_packets: u64,
    /// Input y in B/s, overhead included, with the fraction.
    pub input_rate: u64,
    /// Believed capacity in B/s, with the fraction.
    pub capacity: u64,
    /// The queue at this moment in bytes, with overhead.
    pub backlog_bytes: u64,
    /// The persistent queue in bytes, without overhead.
    pub queue_bytes: u64,
    /// Rate R in B/s, with the fraction; 0 until a law of RCP was set.
    pub rate: u64,
    /// Aggregate feedback F in B/s, with the fraction.
    pub feedback: i64,
    /// Positive feedback to share, Rp, in B/s with the fraction.
    pub positive: u64,
    /// Negative feedback to share, Rn, in B/s with the fraction.
    pub negative: u64,
    /// Cp in B/s/s, with the fraction.
    pub positive_scale: u64,
    /// Cn in 1/s, with 32 fraction bits.
    pub negative_scale: u64,
    /// The average queue, lambda or qbar, in bytes or packets with the fraction.
    pub weighted: u64,
    /// Target of the queue, kappa, the same units.
    pub kappa: u64,
    /// Tau of XCP-b, with 32 fraction bits.
    pub tau: u64,
    /// The integrated error xi in B/s, with the fraction; divided by alpha it is the error of the capacity.
    pub xi: i64,
    /// The error of this interval in B/s, with the fraction.
    pub epsilon: i64,
    /// Growth of the number of flows in d0: its binary logarithm, with the fraction.
    pub growth: i64,
    /// Packets that found no room since the beginning.
    pub drops: u64,
    /// Packets with a header of another version or format since the beginning.
    pub rejected: u64,
    /// Packets in the queue at this moment.
    pub backlog_packets: u32,
    /// Packets of the persistent queue.
    pub queue_packets: u32,
    /// The number of the [`Law`](super::Law).
    pub law: u32,
    /// The parameter n.
    pub n: u32,
    /// Beta in force, in units of 2^-16.
    pub beta: u32,
    /// Whether new flows get the smallest rate.
    pub admits_slowly: u32,
    /// Whether the integrated error is at its bound.
    pub bounded: u32,
}

impl Record {
    /// Reads the bytes of `struct explicit_record`, as a kernel on this machine writes them; `None` for
    /// another number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Record> {
        plain::read(bytes)
    }
}

// SAFETY: all fields are integers.
unsafe impl Plain for Record {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_into_the_fields_at_their_offsets() {
        let mut bytes = [0; size_of::<Record>()];
        let mut set = |at: usize, byte: u8| bytes[at] = byte;
        set(std::mem::offset_of!(Record, time), 1);
        set(std::mem::offset_of!(Record, feedback) + 7, 0x80);
        set(std::mem::offset_of!(Record, rejected), 3);
        set(std::mem::offset_of!(Record, backlog_packets), 4);
        set(std::mem::offset_of!(Record, bounded), 5);
        let record = Record::from_bytes(&bytes).expect("its size");
        let expected = Record {
            time: 1,
            feedback: i64::MIN,
            rejected: 3,
            backlog_packets: 4,
            bounded: 5,
            ..Record::default()
        };
        assert_eq!(record, expected);
        assert_eq!(Record::from_bytes(&bytes[1..]), None);
    }
}
