//! What a server counts, for its log.

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
    /// TCP connections closed at once, because too many handshakes were under way.
    connections_dropped,
    /// Handshakes that failed: strangers, other versions, timeouts.
    handshakes_failed,
    /// Sessions refused by a limit or for want of the right token.
    sessions_refused,
    /// Sessions opened.
    sessions,
    /// Streams received from clients.
    forward_streams,
    /// Streams sent to clients.
    reverse_streams,
    /// Requests within sessions that a limit refused.
    requests_refused,
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
    /// Adds what was odd about a stream.
    pub(crate) fn add_oddities(&self, odd: &Oddities) {
        add(&self.datagrams_malformed, odd.malformed);
        add(&self.datagrams_wrong_session, odd.wrong_session);
        add(&self.datagrams_replayed, odd.replayed);
        add(&self.datagrams_reordered, odd.reordered);
        add(&self.datagrams_unexpected, odd.unexpected);
    }
}
