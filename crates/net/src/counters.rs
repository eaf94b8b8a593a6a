//! The counters of a server, for its log.

use crate::protocol::RefusedBy;
use crate::receive::Irregular;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Defines the counters twice: as atomics that many threads increment, and as plain numbers for display.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters shared by all threads of a server.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub $name: AtomicU64,)* }

        /// A snapshot of a server's counters, all since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct Counts { $($(#[doc = $doc])* pub $name: u64,)* }

        impl Counts {
            /// Returns the name of each counter, what it counts, and its value.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
                [$((stringify!($name), concat!($($doc),*), self.$name),)*].into_iter()
            }
        }

        impl Counters {
            /// Reads all counters.
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// TCP connections accepted.
    connections,
    /// Connections closed at once: too many per second from their network, or from all strangers.
    dropped_too_often,
    /// Connections closed at once: too many at the same time from their network, or in total.
    dropped_too_many,
    /// Connections closed at once because this host had no file descriptor, memory or thread for them.
    dropped_out_of_resources,
    /// Failed handshakes: not Headway, another version, connection closed.
    handshakes_failed,
    /// Handshakes that missed the deadline.
    handshakes_late,
    /// Handshakes aborted to free the place for a network with fewer connections.
    handshakes_displaced,
    /// Sessions that ended before their address was proved.
    sessions_unproved,
    /// Sessions ended to free the place for a network with fewer sessions.
    sessions_displaced,
    /// Refusals because the token was missing or wrong.
    refused_token,
    /// Refusals because there were too many sessions in total.
    refused_sessions,
    /// Refusals because there were too many sessions from one network.
    refused_sessions_of_network,
    /// Refusals of streams that were too fast.
    refused_rate,
    /// Refusals of streams that would take too long, or too much CPU time.
    refused_stream_time,
    /// Refusals because a session had used up its bytes or its time.
    refused_used_up,
    /// Refusals because other streams were being sent.
    refused_busy,
    /// Refusals of requests that were out of order, out of range or before the address was proved.
    refused_other,
    /// Reverse streams aborted because their client was gone.
    streams_cut,
    /// Sessions opened.
    sessions,
    /// Streams received from clients.
    forward_streams,
    /// Streams sent to clients.
    reverse_streams,
    /// Probe packets received.
    packets_received,
    /// Hidden packets received, which were meant to end on the way or on paths of unknown length.
    hidden_received,
    /// Probe packets sent.
    packets_sent,
    /// Bytes of probe packets sent, on the wire.
    bytes_sent,
    /// UDP hellos answered.
    hellos,
    /// Control messages that were malformed or out of order.
    messages_malformed,
    /// Datagrams that do not belong to this protocol or have a wrong field or length.
    datagrams_malformed,
    /// Datagrams of unknown or other sessions.
    datagrams_wrong_session,
    /// Duplicates of packets, and packets of earlier streams.
    datagrams_replayed,
    /// Packets that arrived after one with a higher index.
    datagrams_reordered,
    /// Datagrams of the right session at the wrong time.
    datagrams_unexpected,
    /// Log lines about single sessions that were suppressed because there were too many.
    log_lines_withheld,
}

/// Increments a counter by one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Increments a counter by `amount`.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}

impl Counters {
    /// Returns the counter of refusals for `reason`.
    pub(crate) fn refused(&self, reason: RefusedBy) -> &AtomicU64 {
        match reason {
            RefusedBy::TokenRequired | RefusedBy::WrongToken => &self.refused_token,
            RefusedBy::Sessions => &self.refused_sessions,
            RefusedBy::SessionsPerNetwork => &self.refused_sessions_of_network,
            RefusedBy::Rate => &self.refused_rate,
            RefusedBy::StreamTime => &self.refused_stream_time,
            RefusedBy::SessionBytes | RefusedBy::SessionTime | RefusedBy::Idle => &self.refused_used_up,
            RefusedBy::Busy => &self.refused_busy,
            RefusedBy::StreamPackets
            | RefusedBy::PacketSize
            | RefusedBy::HiddenPackets
            | RefusedBy::SendsNoIcmp
            | RefusedBy::RawSocket
            | RefusedBy::AddressNotProved
            | RefusedBy::OutOfOrder
            | RefusedBy::Stopping => &self.refused_other,
        }
    }

    /// Adds the unexpected datagrams of a stream.
    pub(crate) fn add_irregular(&self, irregular: &Irregular) {
        add(&self.datagrams_malformed, irregular.malformed);
        add(&self.datagrams_wrong_session, irregular.wrong_session);
        add(&self.datagrams_replayed, irregular.replayed);
        add(&self.datagrams_reordered, irregular.reordered);
        add(&self.datagrams_unexpected, irregular.unexpected);
    }
}
