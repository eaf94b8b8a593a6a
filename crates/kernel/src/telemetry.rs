//! Telemetry of loaded controllers: records of ACKs, counters, CPU time (`bpf/intf.h`).

use headway_arithmetic::plain::{self, Plain};
use serde::Serialize;

/// Telemetry of one ACK (`struct hw_record`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Monotonic time, ns.
    pub time: u64,
    /// W, Q9 bytes.
    pub window: u64,
    /// S, Q9 bytes; all bits set before the first reduction.
    pub ssthresh: u64,
    /// Smoothed RTT of the newest segments, which sets the pace, ns.
    pub rtt_pace: u64,
    /// The kernel's smoothed RTT, which sets its timers, ns.
    pub rtt_loss: u64,
    /// Bytes per second; all bits set when the connection is not paced.
    pub pacing_rate: u64,
    /// Increase per round trip before scaling by C, Q9 bytes.
    pub add: u32,
    /// C in units of 2^-16.
    pub scale: u32,
    /// alpha in units of 2^-20.
    pub alpha: u32,
    /// The kernel's cwnd, segments.
    pub cwnd: u32,
    /// Segments acknowledged.
    pub acked: u32,
    /// The marked ones among them.
    pub marked: u32,
    /// Port on this host.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// 1 while the window is below `delta` segments.
    pub submss: u32,
}

impl Record {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Record> {
        plain::read(bytes)
    }
}

/// Says how many connections there are now.
macro_rules! open {
    ($($counters:ty),+) => {
        $(impl $counters {
            /// Returns the number of connections that have the controller now.
            pub fn open(&self) -> u64 {
                self.connections.saturating_sub(self.closed)
            }
        })+
    };
}
open!(Counters, EndCounters, RapidCounters);

/// Totals over all connections since a controller was loaded (`struct hw_counters`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Connections opened.
    pub connections: u64,
    /// Connections closed since.
    pub closed: u64,
    /// Connections that lacked the ECN they need and were switched to Reno.
    #[serde(rename = "without_ecn")]
    pub fallbacks_to_reno: u64,
    /// Segments reported as marked.
    pub marked: u64,
    /// Reductions for marks.
    pub mark_cuts: u64,
    /// Reductions for losses.
    pub loss_cuts: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Reductions for losses or timeouts that were undone as spurious.
    #[serde(rename = "undone")]
    pub spurious_undone: u64,
    /// How often a window fell below `delta` segments.
    #[serde(rename = "submss_entries")]
    pub below_delta: u64,
    /// Records lost because the telemetry buffer was full.
    pub records_lost: u64,
}

/// Totals over all connections since XCP or RCP was loaded (`struct end_counters`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndCounters {
    /// Connections that chose the controller.
    pub connections: u64,
    /// Connections closed since, or switched to Reno.
    pub closed: u64,
    /// Connections switched to Reno because no header came back.
    pub without_peer: u64,
    /// Connections switched to Reno because no router lowered what they asked for.
    pub without_router: u64,
    /// Connections switched to Reno by the loss policy.
    pub yielded: u64,
    /// Connections whose peer knows the header.
    pub answered: u64,
    /// Packets that left with a header.
    pub sent: u64,
    /// Packets that arrived with a header.
    pub received: u64,
    /// Packets that left without a header: of several segments or too long for the interface, or without
    /// room for the TCP option.
    pub too_large: u64,
    /// Packets dropped: fragments, and headers that are cut or of another length. Ignored: TCP options of
    /// another length, and requests whose TCP checksum is wrong.
    pub malformed: u64,
    /// Packets whose header was ignored: another version or format.
    pub unknown: u64,
    /// Packets whose header was ignored: sequence numbers far from those of the connection.
    pub strange: u64,
    /// Reductions for losses.
    pub loss_cuts: u64,
    /// Timeouts.
    pub timeouts: u64,
}

/// Totals over all connections since TCP Rapid was loaded (`struct rapid_counters`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RapidCounters {
    /// Connections that chose the controller.
    pub connections: u64,
    /// Connections closed since, or switched to Reno.
    pub closed: u64,
    /// Connections switched to Reno because the kernel had no memory for their state.
    pub without_memory: u64,
    /// Segments that left as packets of p-streams.
    pub probes: u64,
    /// Segments that left beside the schedule, or were no probes.
    pub beside: u64,
    /// P-streams that yielded an estimate.
    pub estimated: u64,
    /// Complete p-streams that yielded none.
    pub refused: u64,
    /// Loss episodes.
    pub losses: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Loss episodes and timeouts that were spurious.
    pub undone: u64,
    /// Departures that were due while there was nothing to send.
    pub empty: u64,
    /// Packets in flight for which there was no room.
    pub forgotten: u64,
    /// Connections whose receiver's timestamps count microseconds.
    pub stamped: u64,
    /// Connections that use the arrival of ACKs.
    pub unstamped: u64,
    /// Times that a receiver's clock was moved.
    pub moved: u64,
    /// Connections whose receiver tells arrivals at its driver.
    pub by_driver: u64,
    /// Connections whose receiver seemed to do so, but with a clock that is another one.
    pub refused_options: u64,
}

/// Totals since a receiver for TCP Rapid was loaded (`struct stamp_counters`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StampCounters {
    /// Connections whose ACKs are stamped.
    pub connections: u64,
    /// ACKs with the arrival of their segment.
    pub stamped: u64,
    /// ACKs that say that it is not known.
    pub missed: u64,
    /// ACKs without room for it.
    pub without_room: u64,
    /// Packets far from the sequence numbers of their connection, which were not noted.
    pub strange: u64,
}

// SAFETY: all fields are integers.
unsafe impl Plain for Counters {}
// SAFETY: all fields are integers.
unsafe impl Plain for EndCounters {}
// SAFETY: all fields are integers.
unsafe impl Plain for RapidCounters {}
// SAFETY: all fields are integers.
unsafe impl Plain for StampCounters {}
// SAFETY: all fields are integers.
unsafe impl Plain for Record {}

/// The CPU time of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    /// Its name.
    pub program: String,
    /// Calls while timing was on.
    pub calls: u64,
    /// Total time of these calls, ns.
    pub nanoseconds: u64,
}

#[cfg(all(test, feature = "bpf"))]
mod tests {
    use super::*;

    #[test]
    fn records_have_one_length() {
        let bytes = [0xff; size_of::<Record>()];
        assert_eq!(Record::from_bytes(&bytes).unwrap().ssthresh, u64::MAX);
        assert_eq!(Record::from_bytes(&bytes[1..]), None);
    }
}
