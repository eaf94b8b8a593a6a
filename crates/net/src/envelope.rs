//! What surrounds probes where this program and the kernel exchange them.

use crate::protocol::echo::{ECHO_HEADER_LEN, write_echo_header};
use crate::protocol::{Carrier, Family};

/// The header of an IPv4 packet without options, which raw sockets deliver.
const IPV4_HEADER_LEN: usize = 20;

/// The headers around probes of one carrier and family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The packets that carry the probes.
    pub carrier: Carrier,
    /// Their IP version.
    pub family: Family,
}

impl Envelope {
    /// Returns the number of bytes before the probe header in what is sent, and in what routers quote.
    pub(crate) fn sent(self) -> usize {
        match self.carrier {
            Carrier::Udp => 0,
            Carrier::Icmp => ECHO_HEADER_LEN,
        }
    }

    /// Returns the number of bytes before the probe header in what the kernel delivers.
    pub(crate) fn received(self) -> usize {
        match (self.carrier, self.family) {
            (Carrier::Icmp, Family::V4) => IPV4_HEADER_LEN + ECHO_HEADER_LEN,
            _ => self.sent(),
        }
    }

    /// Completes a message whose probe is final.
    pub(crate) fn seal(self, session: u64, message: &mut [u8]) {
        if self.carrier == Carrier::Icmp {
            write_echo_header(self.family, session, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Datagram, KEPT, Stamps};
    use crate::protocol::probe::HEADER_LEN;

    #[test]
    fn the_header_of_every_probe_is_kept() {
        for (carrier, family, before) in [
            (Carrier::Udp, Family::V4, 0),
            (Carrier::Udp, Family::V6, 0),
            (Carrier::Icmp, Family::V4, 28),
            (Carrier::Icmp, Family::V6, 8),
        ] {
            let envelope = Envelope { carrier, family };
            assert_eq!(envelope.received(), before);
            assert!(envelope.received() + HEADER_LEN <= KEPT, "{envelope:?}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_packet_without_a_probe() {
        let packet = |length| Datagram { start: &[7; KEPT][..length], length, stamps: Stamps::default() };
        for (length, left) in [(0, 0), (27, 0), (28, 0), (30, 2)] {
            let probe = packet(length).skip(28);
            assert_eq!((probe.start.len(), probe.length), (left, left));
        }
    }
}
