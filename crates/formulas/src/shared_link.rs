//! Equal flows that share a link.

use headway_units::{Bytes, Duration, Rate};

/// Frame bytes around an IP packet, as the thesis counts windows: Ethernet header and check
/// sequence (ls-aimd 1.1).
pub const FRAME_OVERHEAD: u64 = 18;
/// IP packet bytes around the payload: IP and TCP headers and timestamps (ls-aimd 2.0: 1448 of 1500).
pub const SEGMENT_OVERHEAD: u64 = 52;
/// Segments per ACK of a receiver, and the minimum window of standard TCP (ls-aimd 1.1).
pub const DELTA: u32 = 2;

/// Equal flows that share a link; all fields are above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLink {
    /// Rate of the link.
    pub rate: Rate,
    /// Round-trip time without a queue.
    pub rtt: Duration,
    /// Number of flows.
    pub flows: u32,
    /// Size of a full segment on the link.
    pub frame: Bytes,
}

impl SharedLink {
    /// Returns the bandwidth-delay product in bits: the data in flight of all flows when the link is full
    /// and the queue empty.
    pub fn bits(&self) -> f64 {
        self.rate.bps_f64() * self.rtt.secs_f64()
    }

    /// Returns each flow's share of [`SharedLink::bits`].
    pub fn fair_bits(&self) -> f64 {
        self.bits() / f64::from(self.flows)
    }

    /// Returns the rate of each flow.
    pub fn fair_rate(&self) -> Rate {
        Rate::from_bps_f64(self.rate.bps_f64() / f64::from(self.flows))
    }

    /// Returns the window of each flow in segments that fills the link without a queue (ls-aimd 1.1).
    pub fn window(&self) -> f64 {
        self.fair_bits() / self.frame_bits()
    }

    /// Returns the time in which the link sends one segment of every flow, which is each flow's send interval
    /// at full utilization (ls-aimd 2.19).
    pub fn departure_gap(&self) -> Duration {
        self.rtt_for(1)
    }

    /// Returns the RTT, including the queue, at which a window of `segments` is the fair one (ls-aimd 4.6).
    pub fn rtt_for(&self, segments: u32) -> Duration {
        let bits = f64::from(self.flows) * f64::from(segments) * self.frame_bits();
        Duration::from_secs_f64(bits / self.rate.bps_f64())
    }

    /// Returns the rate of the link at which a window of `segments` is the fair one (ls-aimd 4.6, F59).
    pub fn rate_for(&self, segments: u32) -> Rate {
        self.flow_rate_for(segments).scale(f64::from(self.flows))
    }

    /// Returns the rate of a flow with a window of `segments` and no queue (ls-aimd 4.6).
    pub fn flow_rate_for(&self, segments: u32) -> Rate {
        Rate::from_bps_f64(f64::from(segments) * self.frame_bits() / self.rtt.secs_f64())
    }

    /// Returns the queueing delay if every flow keeps `segments` in flight regardless of marks; zero if the
    /// path holds them (ls-aimd 2.19).
    pub fn standing_queue(&self, segments: u32) -> Duration {
        (self.rtt_for(segments) - self.rtt).max(Duration::ZERO)
    }

    /// Returns the payload bytes of a full segment.
    pub fn mss(&self) -> u64 {
        self.frame.get().saturating_sub(FRAME_OVERHEAD + SEGMENT_OVERHEAD)
    }

    fn frame_bits(&self) -> f64 {
        8.0 * self.frame.get() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(rate: &str, rtt: &str, flows: u32, frame: u64) -> SharedLink {
        let (rate, rtt) = (rate.parse().expect("a rate"), rtt.parse().expect("a time"));
        SharedLink { rate, rtt, flows, frame: Bytes::new(frame) }
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.006, "{value} is not {expected}");
    }

    /// Statements of the thesis about four flows in a data centre (ls-aimd 4.6, F59).
    #[test]
    fn four_flows_in_a_data_centre_need_more_than_they_have() {
        let four = share("40 Gb/s", "10 us", 4, 9018);
        near(four.window(), 1.386);
        near(four.rtt_for(2).us(), 14.43);
        near(four.rate_for(2).mbps(), 57.7e3);
        near(four.rtt_for(16).us(), 115.4);
        near(four.rate_for(16).mbps(), 462e3);
        let eight = SharedLink { flows: 8, ..four };
        near(eight.rtt_for(2).us(), 28.9);
        near(eight.rate_for(2).mbps(), 115.4e3);
    }

    #[test]
    fn broadband_needs_more_with_every_flow() {
        let broadband = share("320 Mb/s", "1 ms", 32, 1518);
        near(broadband.window(), 0.823);
        near(broadband.flow_rate_for(2).mbps(), 24.3);
        near(broadband.rate_for(2).mbps(), 777.2);
        near(SharedLink { flows: 64, ..broadband }.rate_for(2).mbps(), 1554.0);
        near(SharedLink { flows: 128, ..broadband }.rate_for(2).mbps(), 3109.0);
    }

    #[test]
    fn processes_on_one_host_need_a_terabit() {
        let one = share("400 Gb/s", "1 us", 1, 65_536);
        near(one.window(), 0.763);
        near(one.rate_for(2).mbps(), 1.049e6);
    }

    #[test]
    fn two_packets_in_a_queue_take_their_time() {
        assert_eq!(share("1 Gb/s", "0", 1, 1500).standing_queue(2), Duration::from_us(24));
        assert_eq!(share("10 Gb/s", "0", 1, 1500).standing_queue(2), Duration::from_ns(2400));
    }

    /// The queues of senders that keep two segments in flight, in the settings of the thesis
    /// (ls-aimd 2.19, F60).
    #[test]
    fn two_segments_a_flow_stand_in_the_queue() {
        let queue =
            |rate, rtt, flows, frame| share(rate, rtt, flows, frame).standing_queue(DELTA).us().round();
        assert_eq!(queue("200 Mb/s", "100 us", 8, 1518), 872.0);
        assert_eq!(queue("600 Mb/s", "250 us", 16, 1518), 398.0);
        let jumbo = ["250 us", "500 us", "750 us", "1 ms"].map(|rtt| queue("600 Mb/s", rtt, 16, 9018));
        assert_eq!(jumbo, [3598.0, 3348.0, 3098.0, 2848.0]);
        assert_eq!(queue("600 Mb/s", "20 ms", 16, 1518), 0.0);
    }

    #[test]
    fn each_flow_sends_once_while_all_do() {
        let gap = |rate, flows, frame| share(rate, "1 ms", flows, frame).departure_gap().us().round();
        assert_eq!(gap("600 Mb/s", 16, 1518), 324.0);
        assert_eq!(gap("600 Mb/s", 16, 9018), 1924.0);
        assert_eq!(gap("200 Mb/s", 8, 1518), 486.0);
    }

    /// Windows at the target queue: the lowest ones of the settings with jumbo frames (ls-aimd 2.19).
    #[test]
    fn the_window_at_a_target_counts_the_target_as_round_trip() {
        let window = |base: u64| {
            let rtt = format!("{} us", base + 250);
            (share("600 Mb/s", &rtt, 16, 9018).window() * 100.0).round() / 100.0
        };
        assert_eq!([250, 500, 750, 1000].map(window), [0.26, 0.39, 0.52, 0.65]);
    }
}
