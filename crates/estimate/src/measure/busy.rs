//! How long streams met a busy queue, and how much cross traffic they may have missed in that time.

use headway_units::{Duration, Rate};

use super::probe::FULL_PACKET;
use super::response::end_effect;

/// Packets of cross traffic that a measurement may miss by chance: a Poisson process with this mean shows
/// none in one of twenty cases.
const UNMET: f64 = 3.0;
/// Standard deviations of the number of packets met that the error covers.
const DEVIATIONS: f64 = 2.0;

/// The time during which streams met a busy queue, and the cross traffic that they met in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    time: Duration,
    streams: u32,
    /// The time that the cross traffic took on the link.
    crossed: Duration,
}

impl Busy {
    /// Adds a stream that met a busy queue for this long, a share of it because of cross traffic.
    pub(super) fn add(&mut self, time: Duration, crossed: f64) {
        self.time += time;
        self.streams += 1;
        self.crossed += time.scale(crossed.max(0.0));
    }

    /// Returns the error due to the ends of streams, as a fraction of capacity.
    ///
    /// Where streams met less than a packet of cross traffic each, it is random which of them do, and the
    /// errors at their ends average out.
    pub(super) fn end_effect(&self, capacity: Rate) -> f64 {
        let ends = end_effect(capacity, self.time, self.streams);
        let packet = capacity.time_for(FULL_PACKET).secs_f64();
        let (time, met) = (self.time.secs_f64(), self.crossed.secs_f64() / packet);
        if met >= f64::from(self.streams) || time == 0.0 {
            return ends;
        }
        ends.min((UNMET + DEVIATIONS * met.sqrt()) * packet / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes 123.04 us per full packet.
    const CAPACITY: Rate = Rate::from_bps(100_000_000);

    fn busy(streams: u32, crossed: f64) -> f64 {
        let mut busy = Busy::default();
        (0..streams).for_each(|_| busy.add(CAPACITY.time_for(FULL_PACKET) * 20, crossed));
        busy.end_effect(CAPACITY)
    }

    #[test]
    fn without_cross_traffic_the_error_falls_with_the_time_and_not_only_with_the_length_of_streams() {
        // Half a packet of 20, and three packets of 1000.
        assert!((busy(1, 0.0) - 0.025).abs() < 1e-6, "{}", busy(1, 0.0));
        assert!((busy(50, 0.0) - 0.003).abs() < 1e-6, "{}", busy(50, 0.0));
    }

    #[test]
    fn regular_cross_traffic_may_put_a_packet_too_many_into_every_stream() {
        assert!((busy(50, 0.2) - 0.025).abs() < 1e-6, "{}", busy(50, 0.2));
    }

    #[test]
    fn rare_cross_traffic_is_known_as_well_as_its_number_of_packets() {
        // Ten packets of 1000, a fifth of a packet in each stream.
        let expected = (3.0 + 2.0 * 10f64.sqrt()) / 1e3;
        assert!((busy(50, 0.01) - expected).abs() < 1e-6, "{}", busy(50, 0.01));
    }
}
