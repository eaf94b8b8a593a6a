//! The handshake of a connection: its RTT, the options of both ends, and which end is
//! near the tap (wan 2.10).

use super::flight::before;
use super::segment::Segment;
use headway_units::{Duration, Instant};

/// Data that are acknowledged this many times sooner than a SYN was answered, and by this much, are
/// acknowledged by another host, or over another path: hosts take long to accept a connection, but not an RTT
/// of the path. Range 2 to 10.
const SOONER: i64 = 4;
const SOONER_LEAST: Duration = Duration::from_ms(5);

/// The segment that opens the connection of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// When it passed the tap; of one that was sent again before it was answered, the last time.
    pub at: Instant,
    /// Its sequence number.
    pub sequence: u32,
    /// What it acknowledges; `None` for the SYN of the end that opens the connection.
    pub acknowledgement: Option<u32>,
    /// The shift count of the window scale option.
    pub window_scale: Option<u8>,
    /// Whether options may be missing, because the capture kept less than all of them.
    pub cut: bool,
    /// The maximum segment size option, bytes.
    pub mss: Option<u16>,
    /// Whether the other end showed that it had not got it.
    lost: bool,
}

impl Opening {
    /// Whether an acknowledgement number acknowledges this SYN, with or without data in it.
    pub(crate) const fn is_acknowledged_by(&self, number: u32) -> bool {
        before(self.sequence, number)
    }
}

/// The handshake of a connection, seen at a tap anywhere on the path. Its ends are numbered 0 and 1.
///
/// From the SYN of one end to the first segment of the other that acknowledges it, a packet goes from the tap
/// to the other end and back. Both such times together are the RTT. What an application waits before it sends
/// data is in neither, and neither is the timeout of a lost segment of the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    openings: [Option<Opening>; 2],
    /// The time from the SYN of each end to its answer.
    answered: [Option<Duration>; 2],
    /// The time from the SYN to the next segment of the same end, where the other end was not captured.
    one_way: Option<Duration>,
    /// The RTT before a part of it was taken back.
    shaken: Option<Duration>,
    is_over: bool,
}

impl Handshake {
    /// Takes the next segment of the connection, sent by `end`.
    pub fn observe(&mut self, end: usize, segment: &Segment) {
        if !self.is_over && (segment.flags.syn || self.openings != [None; 2]) {
            self.take(end, segment);
        }
    }

    fn take(&mut self, end: usize, segment: &Segment) {
        // An end that aborts the connection may do so at any time.
        if segment.flags.rst {
            return;
        }
        self.answer(1 - end, segment.at, segment.acknowledgement);
        if segment.flags.syn {
            self.open(end, segment);
        } else if let (Some(own), None) = (self.openings[end], self.openings[1 - end])
            && own.acknowledgement.is_none()
            && segment.acknowledgement.is_some()
        {
            self.one_way = Some(segment.at - own.at);
        }
        self.is_over = self.one_way.is_some() || self.answered.iter().all(Option::is_some);
    }

    /// The other end acknowledged `number` at `at`.
    fn answer(&mut self, of: usize, at: Instant, number: Option<u32>) {
        let (Some(opening), Some(number)) = (self.openings[of], number) else { return };
        if self.answered[of].is_none() && opening.is_acknowledged_by(number) && !opening.lost {
            self.answered[of] = Some(at - opening.at);
        }
    }

    fn open(&mut self, end: usize, segment: &Segment) {
        // Who repeats a SYN has not got the answer to it: the time from that to the next
        // segment includes a timeout.
        let repeats = self.openings[end].is_some_and(|own| own.acknowledgement.is_none())
            && segment.acknowledgement.is_none();
        if let Some(other) = &mut self.openings[1 - end]
            && repeats
            && other.acknowledgement.is_some()
        {
            other.lost = true;
        }
        // Of a repeated SYN the last one counts, as long as none is answered: its answer comes soonest.
        // Where both ends open the connection, each SYN is followed by a SYN-ACK that answers the other.
        let both = self.openings[end].is_some_and(|own| own.acknowledgement != segment.acknowledgement);
        if self.answered[end].is_some() || both {
            return;
        }
        self.openings[end] = Some(Opening {
            at: segment.at,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            window_scale: segment.window_scale,
            cut: segment.cut,
            mss: segment.mss,
            lost: false,
        });
        // Its answer may have been captured before it, where packets of several queues are
        // captured out of order.
        if let Some(other) = self.openings[1 - end] {
            self.answer(end, other.at, other.acknowledgement);
        }
    }

    /// Data of `end` were acknowledged after `time`. If that is far sooner than its SYN was answered, another
    /// host answered: takes that time in place of the handshake's, and returns it.
    pub fn take_back(&mut self, end: usize, time: Duration) -> Option<Duration> {
        let answered = self.answered[end].filter(|answered| *answered > time * SOONER + SOONER_LEAST)?;
        (self.is_over && time > Duration::ZERO).then(|| {
            self.shaken = self.shaken.or(self.rtt());
            self.answered[end] = Some(time);
            answered
        })
    }

    /// Whether all is known that the handshake tells.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the segment that opened the connection of an end; `None` if it was not seen.
    pub const fn opening(&self, end: usize) -> Option<&Opening> {
        self.openings[end].as_ref()
    }

    /// Returns the RTT; `None` before the end of the handshake, or if it was not seen.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        let whole = match self.answered {
            [Some(there), Some(back)] => Some(there + back),
            _ => self.one_way,
        };
        whole.filter(|time| *time > Duration::ZERO)
    }

    /// Returns the RTT as the handshake showed it, even if a proxy answered.
    pub(crate) fn shaken_rtt(&self) -> Option<Duration> {
        self.shaken.or_else(|| self.rtt())
    }

    /// Returns the end that is nearer to the tap; `None` if the handshake does not tell.
    pub fn near(&self) -> Option<usize> {
        let [Some(to_second), Some(to_first)] = self.answered else { return None };
        (to_first != to_second).then_some(usize::from(to_second < to_first))
    }

    /// Returns the time from the tap to an end and back; `None` if the handshake does not tell.
    pub(crate) fn time_to(&self, end: usize) -> Option<Duration> {
        self.answered[1 - end].filter(|_| self.is_over)
    }

    /// Returns the same handshake with `end` as the first of its ends.
    pub(crate) fn seen_from(&self, end: usize) -> Handshake {
        let mut seen = *self;
        if end == 1 {
            seen.openings.swap(0, 1);
            seen.answered.swap(0, 1);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::Flags;
    use super::super::segment::tests::data;
    use super::*;

    const CLIENT: usize = 0;
    const SERVER: usize = 1;
    const SYN: Flags = Flags { syn: true, fin: false, rst: false };

    fn syn(ms: u64) -> (usize, Segment) {
        (CLIENT, Segment { flags: SYN, acknowledgement: None, ..data(ms * 1_000, 999, 0) })
    }

    fn syn_ack(ms: u64) -> (usize, Segment) {
        (SERVER, Segment { flags: SYN, acknowledgement: Some(1_000), ..data(ms * 1_000, 4_999, 0) })
    }

    fn client(ms: u64, payload: u32) -> (usize, Segment) {
        (CLIENT, Segment { acknowledgement: Some(5_000), ..data(ms * 1_000, 1_000, payload) })
    }

    fn server(ms: u64, payload: u32) -> (usize, Segment) {
        (SERVER, Segment { acknowledgement: Some(1_000), ..data(ms * 1_000, 5_000, payload) })
    }

    /// Returns the RTT in milliseconds and the near end.
    fn seen(segments: &[(usize, Segment)]) -> (Option<f64>, Option<usize>) {
        let mut handshake = Handshake::default();
        segments.iter().for_each(|(end, segment)| handshake.observe(*end, segment));
        (handshake.rtt().map(|time| time.ms()), handshake.near())
    }

    #[test]
    fn the_rtt_ends_with_the_third_segment_and_not_with_the_first_data() {
        let near_client = [syn(0), syn_ack(20), client(20, 0), client(5_020, 100)];
        assert_eq!(seen(&near_client), (Some(20.0), Some(CLIENT)));
        let near_server = [syn(0), syn_ack(0), client(20, 0), client(5_020, 100)];
        assert_eq!(seen(&near_server), (Some(20.0), Some(SERVER)));
        let middle = [syn(0), syn_ack(15), client(20, 0), server(900, 100), client(905, 0)];
        assert_eq!(seen(&middle), (Some(20.0), Some(CLIENT)));
        assert_eq!(seen(&[syn(0), syn_ack(20)]), (None, None));
    }

    #[test]
    fn timeouts_of_lost_segments_do_not_count() {
        // The SYN, or the SYN-ACK, was lost between tap and server.
        assert_eq!(seen(&[syn(0), syn(1_000), syn_ack(1_020), client(1_020, 0)]).0, Some(20.0));
        // The SYN-ACK was lost between tap and client; the client, or the server, repeats.
        let by_client = [syn(0), syn_ack(0), syn(1_000), syn_ack(1_000), client(1_020, 0)];
        assert_eq!(seen(&by_client), (Some(20.0), Some(SERVER)));
        let by_server = [syn(0), syn_ack(0), syn_ack(1_000), client(1_020, 0)];
        assert_eq!(seen(&by_server), (Some(20.0), Some(SERVER)));
        // The third segment was lost between client and tap.
        let third = [syn(0), syn_ack(0), syn_ack(1_000), client(1_020, 100)];
        assert_eq!(seen(&third), (Some(20.0), Some(SERVER)));
        // The client repeats its SYN after the SYN-ACK has passed, and nothing tells when it got one.
        assert_eq!(seen(&[syn(0), syn_ack(140), syn(1_000), client(1_002, 0)]).0, None);
        // The server answers again although the third segment has come (delayed accept).
        let accept = [syn(0), syn_ack(0), client(20, 0), syn_ack(1_000), client(1_020, 0)];
        assert_eq!(seen(&accept), (Some(20.0), Some(SERVER)));
    }

    #[test]
    fn data_in_the_syn_and_data_before_the_third_segment_change_nothing() {
        let syn = (CLIENT, Segment { payload: 500, ..syn(0).1 });
        let whole = |ms| (SERVER, Segment { acknowledgement: Some(1_500), ..syn_ack(ms).1 });
        assert_eq!(seen(&[syn, whole(20), server(20, 900), client(21, 0)]), (Some(21.0), Some(CLIENT)));
        assert_eq!(seen(&[syn, whole(0), server(1, 900), client(20, 0)]), (Some(20.0), Some(SERVER)));
        assert_eq!(seen(&[syn, syn_ack(0), client(20, 500)]).0, Some(20.0), "the data were refused");
    }

    #[test]
    fn handshakes_out_of_order_and_of_both_ends_are_understood() {
        assert_eq!(seen(&[syn_ack(0), syn(0), client(20, 0)]), (Some(20.0), Some(SERVER)));
        // Simultaneous open: 1 ms to the client and back, 20 ms to the server and back.
        let own = (SERVER, Segment { acknowledgement: None, ..syn_ack(1).1 });
        let answer = (CLIENT, Segment { acknowledgement: Some(5_000), ..syn(2).1 });
        assert_eq!(seen(&[syn(0), own, answer, syn_ack(20)]), (Some(21.0), Some(CLIENT)));
    }

    #[test]
    fn what_was_not_captured_or_was_refused_has_no_rtt() {
        assert_eq!(seen(&[syn_ack(0), client(20, 0), server(21, 10)]), (None, None), "begun too late");
        assert_eq!(seen(&[client(0, 10), server(20, 0)]), (None, None));
        let reset = |(end, segment): (usize, Segment)| {
            (end, Segment { flags: Flags { rst: true, ..Flags::default() }, ..segment })
        };
        assert_eq!(seen(&[syn(0), reset(server(20, 0))]), (None, None));
        assert_eq!(seen(&[syn(0), client(20, 0)]), (Some(20.0), None), "one direction");
    }
}
