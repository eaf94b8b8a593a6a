//! Saturated stations of an 802.11 channel (Bianchi, IEEE JSAC 18(3), 2000; xcp-rcp 6.3).

use headway_units::Duration;

/// Stations that always have a frame of the same size to send, and back off before every attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaturatedChannel {
    /// Number of stations, at least 1.
    pub stations: u32,
    /// Contention window of the first attempt in slots: a backoff is 0 to one less, uniformly.
    pub window: u32,
    /// How often the window doubles.
    pub doublings: u32,
    /// Attempts after the first before a frame is given up; `None` for never.
    pub retries: Option<u32>,
    /// Length of an empty slot.
    pub slot: Duration,
    /// How long a frame that arrives keeps the channel, up to the first slot behind it.
    pub success: Duration,
    /// How long a collision does.
    pub collision: Duration,
}

impl SaturatedChannel {
    /// Returns the probability that a station sends in a slot, if each of its attempts collides with
    /// probability `p`: attempts over the slots that they take, with their backoffs.
    fn attempts_per_slot(&self, p: f64) -> f64 {
        // Without a limit the rest of the series is that of the largest window.
        let last = self.retries.unwrap_or(self.doublings);
        let (mut attempts, mut slots, mut reached) = (0.0, 0.0, 1.0);
        for attempt in 0..=last {
            let window = f64::from(self.window) * 2f64.powi(attempt.min(self.doublings) as i32);
            let weight =
                if attempt == last && self.retries.is_none() { reached / (1.0 - p) } else { reached };
            attempts += weight;
            slots += weight * (window + 1.0) / 2.0;
            reached *= p;
        }
        attempts / slots
    }

    /// Returns the probability that an attempt collides: the fixed point of p = 1 - (1 - tau(p))^(n - 1).
    pub fn collision_probability(&self) -> f64 {
        let others = |p: f64| 1.0 - (1.0 - self.attempts_per_slot(p)).powi(self.stations as i32 - 1);
        let (mut low, mut high) = (0.0, 1.0 - f64::EPSILON);
        for _ in 0..60 {
            let p = f64::midpoint(low, high);
            if others(p) > p { low = p } else { high = p }
        }
        low
    }

    /// Returns the frames that arrive per second, of all stations together.
    pub fn frames_per_second(&self) -> f64 {
        let tau = self.attempts_per_slot(self.collision_probability());
        let stations = f64::from(self.stations);
        let none = (1.0 - tau).powi(self.stations as i32);
        let one = stations * tau * (1.0 - tau).powi(self.stations as i32 - 1);
        let times = [(none, self.slot), (one, self.success), (1.0 - none - one, self.collision)];
        one / times.iter().map(|(share, time)| share * time.secs_f64()).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The FHSS example of the paper: payload of 8184 bits at 1 Mb/s, basic access.
    fn example(stations: u32, window: u32, doublings: u32) -> SaturatedChannel {
        let us = Duration::from_us;
        // Headers of 272 and 128 bits, ACK of 112 + 128 bits, SIFS 28, DIFS 128 and propagation of 1 us.
        let success = us(272 + 128 + 8184 + 28 + 1 + 240 + 128 + 1);
        let collision = us(272 + 128 + 8184 + 128 + 1);
        SaturatedChannel { stations, window, doublings, retries: None, slot: us(50), success, collision }
    }

    #[test]
    fn the_fixed_point_is_that_of_the_closed_form_of_tau() {
        for (stations, window, doublings) in [(1, 16, 6), (2, 16, 6), (10, 32, 5), (30, 128, 3)] {
            let channel = example(stations, window, doublings);
            let p = channel.collision_probability();
            let (w, m) = (f64::from(window), doublings as i32);
            let tau =
                2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)));
            assert!((channel.attempts_per_slot(p) - tau).abs() < 1e-9, "{stations} {tau}");
            assert!((p - (1.0 - (1.0 - tau).powi(stations as i32 - 1))).abs() < 1e-9);
        }
    }

    #[test]
    fn one_station_waits_half_of_its_window() {
        let channel = example(1, 32, 5);
        let cycle = channel.success.secs_f64() + 15.5 * channel.slot.secs_f64();
        assert!((channel.frames_per_second() * cycle - 1.0).abs() < 1e-9);
    }
}
