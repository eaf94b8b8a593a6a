//! What a server counts, for its log.

use crate::protocol::RefusedBy;
use crate::receive::Oddities;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Defines the counters twice: as atomics that many threads raise, and as the plain numbers that are shown.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that all threads of a server share.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub $name: AtomicU64,)* }

        /// The counters of a server at one moment, all since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct Counts { $($(#[$doc])* pub $name: u64,)* }

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
    /// Connections closed at once: too many a second from their network, or from all strangers.
    dropped_too_often,
    /// Connections closed at once: too many at the same time from their network, or in all.
    dropped_too_many,
    /// Connections closed at once because this host had no file, memory or thread for them.
    dropped_out_of_resources,
    /// Handshakes that failed: strangers, other versions, connections closed.
    handshakes_failed,
    /// Handshakes not finished in time.
    handshakes_late,
    /// Handshakes broken off because another network with fewer connections needed the place.
    handshakes_displaced,
    /// Sessions that ended without a proved address.
    sessions_unproved,
    /// Sessions ended because another network with fewer sessions needed the place.
    sessions_displaced,
    /// Refusals for want of the right token.
    refused_token,
    /// Refusals because there were too many sessions in all.
    refused_sessions,
    /// Refusals because there were too many sessions from one network.
    refused_sessions_of_network,
    /// Refusals of streams that were too fast.
    refused_rate,
    /// Refusals of streams that took too long, or too much of a processor.
    refused_stream_time,
    /// Refusals because a session had used its bytes or its time.
    refused_used_up,
    /// Refusals because other streams were being sent.
    refused_busy,
    /// Refusals of requests that were out of order, out of range or before the proof.
    refused_other,
    /// Reverse streams cut short because their client had gone.
    streams_cut,
    /// Sessions opened.
    sessions,
    /// Streams received from clients.
    forward_streams,
    /// Streams sent to clients.
    reverse_streams,
    /// Probe packets received, on the wire.
    packets_received,
    /// Probe packets sent.
    packets_sent,
    /// Bytes of probe packets sent, on the wire.
    bytes_sent,
    /// UDP hellos answered.
    hellos,
    /// Control messages that were malformed or out of order.
    messages_malformed,
    /// Datagrams that are not of this protocol or have a wrong field or length.
    datagrams_malformed,
    /// Datagrams of unknown or other sessions.
    datagrams_wrong_session,
    /// Copies of packets that had arrived already, or of earlier streams.
    datagrams_replayed,
    /// Packets that arrived after one with a higher index.
    datagrams_reordered,
    /// Datagrams of the right session at the wrong time.
    datagrams_unexpected,
    /// Lines about single sessions that were not logged because there were too many.
    log_lines_withheld,
}

/// Raises one counter by one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Raises one counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}

impl Counters {
    /// The counter of refusals for a reason.
    pub(crate) fn refused(&self, reason: RefusedBy) -> &AtomicU64 {
        match reason {
            RefusedBy::TokenRequired | RefusedBy::WrongToken => &self.refused_token,
            RefusedBy::Sessions => &self.refused_sessions,
            RefusedBy::SessionsPerAddress => &self.refused_sessions_of_network,
            RefusedBy::Rate => &self.refused_rate,
            RefusedBy::StreamTime => &self.refused_stream_time,
            RefusedBy::SessionBytes | RefusedBy::SessionTime | RefusedBy::Idle => &self.refused_used_up,
            RefusedBy::Busy => &self.refused_busy,
            RefusedBy::StreamPackets
            | RefusedBy::PacketSize
            | RefusedBy::AddressNotProved
            | RefusedBy::OutOfOrder
            | RefusedBy::Stopping => &self.refused_other,
        }
    }

    /// Adds what was odd about a stream.
    pub(crate) fn add_oddities(&self, odd: &Oddities) {
        add(&self.datagrams_malformed, odd.malformed);
        add(&self.datagrams_wrong_session, odd.wrong_session);
        add(&self.datagrams_replayed, odd.replayed);
        add(&self.datagrams_reordered, odd.reordered);
        add(&self.datagrams_unexpected, odd.unexpected);
    }
}
