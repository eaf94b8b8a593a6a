//! How long transfers take over a path, and of what size they are.
//!
//! The time follows from what is free, the round-trip time and the loss, as in Cardwell, Savage and
//! Anderson, "Modeling TCP Latency" (INFOCOM 2000): a handshake, slow start until the path is full, a packet
//! is lost or all is sent, and the rest at the rate that is left: what is free, or what losses leave of it
//! by RFC 9438, section 5.

use headway_units::{Bytes, Duration, Instant, Rate};

use crate::distribution::{Distribution, POINTS, rate_at};

/// Payload of a segment of TCP with timestamps, in bits.
const SEGMENT: f64 = 1_448.0 * 8.0;
/// Its share of what is on the wire.
const PAYLOAD: f64 = 1_448.0 / 1_538.0;
/// Segments of the initial window (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// The timeout of a connection request, and the least one of a segment, in seconds (RFC 6298, Linux).
const TIMEOUTS: [f64; 2] = [1.0, 0.2];
/// Round-trip time of a path before anything was heard of it, in seconds. Range 0.01 to 0.3.
const USUAL_RTT: f64 = 0.05;
/// Sizes are counted in classes of powers of two, from 8 kB on; less is no transfer that anybody waits
/// for. Range 1 to 64 kB.
const LEAST: u64 = 8_192;
/// Number of classes: the last one has all from 4 GB on.
const CLASSES: usize = 20;
/// Before transfers were seen, this many of this class count: what takes long matters most. 12 kB times two
/// to the tenth is 12 MB.
const BEFORE: (usize, f64) = (10, 1.0);
/// How much more transfers of twice the size matter: users wait for them longer. Range 1 to 1.3.
const LONG: f64 = 1.05;
/// Weight that a size keeps with each further transfer: some fifty count. Range 0.9 to 0.999.
const KEPT: f64 = 0.98;
/// Shares of packets that a path may lose by chance; from one to the next, TCP's rate falls by 40 to
/// 50 %.
const LOSSES: [f64; 5] = [0.0, 0.001, 0.004, 0.012, 0.035];
/// How likely each is before anything was seen: most paths lose none. Their sum is 1.
const LOSS_ODDS: [f64; 5] = [0.92, 0.02, 0.02, 0.02, 0.02];
/// The share of packets that is lost anyway in bursts of others, which is no property of the
/// path. Range 1e-4 to 1e-3.
const BURSTS: f64 = 3e-4;
/// What was seen of losses counts half after so many seconds. Range 10 minutes to a day.
const LOSS_FORGETS: f64 = 3_600.0;
/// Variance of how far the model is from how long transfers take, in squared steps of 4 %: times vary with
/// round-trip times, and with what is sent next. Range 2 to 10.
const ERROR: f64 = 9.0;
/// Of the time in seconds this is a rate on the grid of [`Distribution`]: a millisecond to a quarter
/// of an hour are on it.
const SPEED: f64 = 1e8;

/// What makes a transfer slow or fast besides what is free.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions {
    /// The round-trip time.
    pub(crate) rtt: Option<Duration>,
    /// The capacity of the narrow link.
    pub(crate) capacity: Option<Rate>,
    /// What a token bucket passes at any rate.
    pub(crate) bucket: Option<Bytes>,
}

/// Returns the seconds that a transfer of `size` bytes takes where `free` bit/s are free and this
/// share of packets is lost.
fn seconds(size: f64, free: f64, conditions: &Conditions, loss: f64) -> f64 {
    let rtt = conditions.rtt.map_or(USUAL_RTT, Duration::secs_f64).max(1e-4);
    let goodput = (free * PAYLOAD).max(1.0);
    let segments = (size * 8.0 / SEGMENT).max(1.0);
    // Segments until the first loss.
    let unharmed = if loss > 1e-9 { (1.0 - (1.0 - loss).powf(segments)) / loss } else { segments };
    let full = goodput * rtt / SEGMENT;
    let doublings = (full / INITIAL_WINDOW).max(1.0).log2();
    let until_full = (INITIAL_WINDOW * (doublings.exp2() - 1.0)).min(unharmed);
    let rounds = (until_full / INITIAL_WINDOW + 1.0).log2();
    // What is sent at once passes at the rate of the link, before packets of others that come later.
    let flight = (unharmed / 2.0).max(INITIAL_WINDOW).min(full.max(INITIAL_WINDOW)).min(unharmed);
    let at_once = flight * SEGMENT / conditions.capacity.map_or(goodput, Rate::bps_f64).max(goodput);
    let bucket = conditions.bucket.map_or(0.0, |bucket| bucket.get() as f64 * 8.0 * PAYLOAD / SEGMENT);
    let at_goodput = (unharmed - until_full - INITIAL_WINDOW - bucket).max(0.0) * SEGMENT / goodput;
    let lossy = if loss > 1e-9 { lossy_rate(rtt, loss).min(goodput) } else { goodput };
    let rest = (segments - unharmed) * SEGMENT / lossy;
    // The request and the last segments have nothing behind them by which a loss would be noticed.
    let timeouts = 2.0 * loss * TIMEOUTS[0] + (1.0 - (1.0 - loss).powi(3)) * (TIMEOUTS[1] + rtt);
    2.0 * rtt + (rounds - 1.0).max(0.0) * rtt + at_once + at_goodput + rest + timeouts
}

/// Returns the rate that CUBIC has where packets are lost by chance, in bit/s of payload.
fn lossy_rate(rtt: f64, loss: f64) -> f64 {
    let reno = (1.5 / loss).sqrt();
    let cubic = 1.054 * (rtt / loss).powf(0.75);
    reno.max(cubic) * SEGMENT / rtt
}

/// Which share of packets a path loses by chance.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    odds: [f64; LOSSES.len()],
    at: Instant,
}

impl Losses {
    pub(crate) const fn new(now: Instant) -> Losses {
        Losses { odds: LOSS_ODDS, at: now }
    }

    fn each(&self) -> impl Iterator<Item = (f64, f64)> {
        LOSSES.into_iter().zip(self.odds)
    }

    /// Returns the expected share.
    pub(crate) fn mean(&self) -> f64 {
        self.each().map(|(loss, odds)| loss * odds).sum()
    }

    /// Returns the rate of TCP where `free` bit/s are free, in bit/s of payload.
    pub(crate) fn expected_rate(&self, free: f64, conditions: &Conditions) -> f64 {
        let rtt = conditions.rtt.map_or(USUAL_RTT, Duration::secs_f64).max(1e-4);
        let rate = |loss: f64| if loss > 1e-9 { lossy_rate(rtt, loss) } else { f64::INFINITY };
        self.each().map(|(loss, odds)| odds * rate(loss).min(free * PAYLOAD)).sum()
    }

    /// Takes that of so many streams with so many packets each some have lost packets, whose rate was free.
    pub(crate) fn learn(&mut self, now: Instant, streams: u32, packets: f64, harmed: u32) {
        let kept = 0.5f64.powf((now - self.at).secs_f64().max(0.0) / LOSS_FORGETS);
        self.at = now;
        let likelihood = |loss: f64| {
            let harmed_by = 1.0 - (1.0 - loss.max(BURSTS)).powf(packets);
            harmed_by.powf(f64::from(harmed))
                * (1.0 - harmed_by).powf(f64::from(streams.saturating_sub(harmed)))
        };
        let each = |(number, odds): (usize, &mut f64)| {
            *odds = (kept * *odds + (1.0 - kept) * LOSS_ODDS[number]) * likelihood(LOSSES[number]);
        };
        self.odds.iter_mut().enumerate().for_each(each);
        let sum: f64 = self.odds.iter().sum();
        self.odds
            .iter_mut()
            .zip(LOSS_ODDS)
            .for_each(|(odds, first)| *odds = 0.99 * *odds / sum + 0.01 * first);
    }
}

/// The sizes of own transfers.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    given: Option<Bytes>,
    weights: [f64; CLASSES],
}

impl Sizes {
    pub(crate) fn new(given: Option<Bytes>) -> Sizes {
        let mut weights = [0.0; CLASSES];
        weights[BEFORE.0] = BEFORE.1;
        Sizes { given, weights }
    }

    /// Takes the size of a transfer that has ended.
    pub(crate) fn learn(&mut self, size: Bytes) {
        if size.get() >= LEAST {
            let class = (size.get() / LEAST).ilog2() as usize;
            self.weights.iter_mut().for_each(|weight| *weight *= KEPT);
            self.weights[class.min(CLASSES - 1)] += 1.0;
        }
    }

    /// Returns the sizes in bytes, each with how much it matters.
    fn each(&self) -> Vec<(f64, f64)> {
        if let Some(size) = self.given {
            return vec![(size.get() as f64, 1.0)];
        }
        let sum: f64 = self.weights.iter().sum();
        let size = |class: usize| LEAST as f64 * 1.5 * f64::from(1u32 << class);
        let classes = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.01 * sum);
        let matters = |class: usize| LONG.powi(class as i32);
        classes.map(|(class, weight)| (size(class), matters(class) * weight / sum)).collect()
    }

    /// Returns the size that matters as much as all smaller ones, and as all larger ones.
    pub(crate) fn usual(&self) -> Bytes {
        let each = self.each();
        let half = each.iter().map(|(_, share)| share).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let usual = each.iter().find(|(_, share)| {
            sum += share;
            sum >= half
        });
        Bytes::new(usual.map_or(LEAST, |(size, _)| *size as u64))
    }

    /// Returns how fast transfers are over a path for each rate that may be free: the geometric mean of their
    /// times, as a rate by [`time_of`].
    pub(crate) fn speeds(&self, conditions: &Conditions, losses: &Losses) -> Vec<f64> {
        let losses = || losses.each().filter(|(_, odds)| *odds > 0.01);
        let each: Vec<[f64; 3]> = self
            .each()
            .into_iter()
            .flat_map(|(size, share)| losses().map(move |(loss, odds)| [size, loss, share * odds]))
            .collect();
        let weight: f64 = each.iter().map(|[.., weight]| weight).sum();
        let speed = |point: usize| {
            let ln = |[size, loss, weight]: &[f64; 3]| {
                weight * seconds(*size, rate_at(point), conditions, *loss).ln()
            };
            SPEED / (each.iter().map(ln).sum::<f64>() / weight).exp()
        };
        let mut fastest = 0.0f64;
        // A window that is full a round earlier is no gain in the model, though more is free.
        let ascending = |point: usize| {
            fastest = fastest.max(speed(point));
            fastest
        };
        (0..POINTS).map(ascending).collect()
    }
}

/// Returns the time that a speed stands for.
pub(crate) fn time_of(speed: Rate) -> Duration {
    Duration::from_secs_f64(SPEED / speed.bps_f64().max(1.0))
}

/// Own traffic as it comes and goes, by which transfers are told apart: one ends with a second of silence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    bytes: u64,
    at: Option<Instant>,
}

impl Busy {
    /// Bytes of a second that count as silence: keep-alives and acknowledgements. Range 1 to 20 kB.
    const SILENCE: u64 = 4_000;
    /// A time longer than this was not watched.
    const LONGEST: Duration = Duration::from_ms(3_000);

    /// Takes the rate since the last look; returns the size of a transfer that has ended.
    pub(crate) fn look(&mut self, now: Instant, rate: Rate) -> Option<Bytes> {
        let time = self.at.replace(now).map_or(Self::LONGEST, |at| (now - at).min(Self::LONGEST));
        let bytes = rate.bytes_in(time).get();
        if bytes > Self::SILENCE {
            self.bytes += bytes;
            return None;
        }
        let ended = std::mem::take(&mut self.bytes);
        (ended > 0).then_some(Bytes::new(ended))
    }
}

/// What is thought of a path as it is compared: what is free, and what follows for whoever uses it.
#[derive(Clone, Debug)]
pub(crate) struct Prospect {
    /// What is free.
    pub(crate) free: Distribution,
    /// What paths are compared by: what is free, or how fast transfers are.
    pub(crate) value: Distribution,
    /// The value at each rate that may be free; the rate itself if there is none.
    speeds: Option<Vec<f64>>,
}

impl Prospect {
    /// One that is compared by what is free.
    pub(crate) fn of_free(free: Distribution) -> Prospect {
        Prospect { value: free.clone(), free, speeds: None }
    }

    /// One that is compared by the speed of transfers.
    pub(crate) fn of_speed(free: Distribution, speeds: Vec<f64>) -> Prospect {
        let mut value = free.mapped(&speeds);
        value.blur(ERROR);
        Prospect { value, free, speeds: Some(speeds) }
    }

    /// Returns the probability that the value is more than `factor` times that of another path where as much
    /// is free as on that one.
    pub(crate) fn surpasses(&self, other: &Prospect, factor: f64) -> f64 {
        let (Some(speeds), Some(others)) = (&self.speeds, &other.speeds) else { return 0.0 };
        let each = other.free.mass().iter().zip(speeds.iter().zip(others));
        each.filter(|(_, (speed, other))| **speed > factor * **other).map(|(mass, _)| mass).sum()
    }

    /// Returns the value if no more is known than this of what is free.
    pub(crate) fn value_of(&self, free: &Distribution) -> Distribution {
        self.speeds.as_ref().map_or_else(|| free.clone(), |speeds| free.mapped(speeds))
    }

    /// Returns the rate that must be free for a value; none if no rate gives as much, or any does.
    pub(crate) fn rate_for(&self, value: Rate) -> Option<Rate> {
        let Some(speeds) = &self.speeds else { return Some(value) };
        let point = speeds.partition_point(|speed| *speed < value.bps_f64());
        (0 < point && point < POINTS).then(|| Rate::from_bps_f64(rate_at(point)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(rtt_ms: i64, loss: f64, size: f64, free: f64) -> f64 {
        seconds(
            size,
            free,
            &Conditions { rtt: Some(Duration::from_ms(rtt_ms)), ..Conditions::default() },
            loss,
        )
    }

    #[test]
    fn a_fast_far_path_loses_for_little_and_wins_for_much() {
        assert!(took(10, 0.0, 1e5, 10e6) < took(200, 0.0, 1e5, 80e6));
        assert!(took(10, 0.0, 1e8, 10e6) > 5.0 * took(200, 0.0, 1e8, 80e6));
    }

    /// Without loss 100 MB take as long as their bytes, and with it as long as RFC 9438 says.
    #[test]
    fn long_transfers_have_what_is_free_or_what_losses_leave() {
        let ideal = 8e8 / (50e6 * PAYLOAD);
        assert!((took(20, 0.0, 1e8, 50e6) / ideal - 1.0).abs() < 0.02);
        // Reno has 12.2 segments in flight, CUBIC 1.054 (0.1 / 0.01)^0.75 = 5.9.
        let lossy = 8e8 / ((1.5f64 / 0.01).sqrt() * SEGMENT / 0.1);
        assert!((took(100, 0.01, 1e8, 50e6) / lossy - 1.0).abs() < 0.02);
    }

    /// 28 segments take a handshake and two windows, of 10 and of 18, and some time on the link.
    #[test]
    fn short_transfers_take_round_trips() {
        let time = took(100, 0.0, 40_544.0, 50e6) / 0.1;
        assert!((2.9..3.2).contains(&time), "{time}");
        assert!((2.0..2.1).contains(&(took(100, 0.0, 10_000.0, 50e6) / 0.1)));
    }

    #[test]
    fn more_free_hardly_ever_takes_longer() {
        for (rtt, loss) in [(1, 0.0), (300, 0.0), (20, 0.001), (100, 0.03)] {
            for size in [1e4, 3e5, 1e7, 1e9] {
                let times: Vec<f64> =
                    (0..POINTS).map(|point| took(rtt, loss, size, rate_at(point))).collect();
                assert!(times.windows(2).all(|pair| pair[1] <= pair[0] * 1.02), "{rtt} {loss} {size}");
            }
        }
    }

    #[test]
    fn losses_are_believed_when_they_come_again() {
        let mut losses = Losses::new(Instant::ZERO);
        losses.learn(Instant::ZERO, 3, 32.0, 1);
        assert!(losses.mean() < 0.01, "{}", losses.mean());
        for _ in 0..10 {
            losses.learn(Instant::ZERO, 3, 32.0, 0);
        }
        assert!(losses.mean() < 5e-4, "{}", losses.mean());
        for _ in 0..10 {
            losses.learn(Instant::ZERO, 3, 32.0, 1);
        }
        assert!((0.005..0.02).contains(&losses.mean()), "{}", losses.mean());
    }

    #[test]
    fn transfers_are_told_apart_by_silence_and_their_sizes_forgotten() {
        let mut busy = Busy::default();
        let at = |seconds: i64| Instant::ZERO + Duration::from_ms(1_000 * seconds);
        let rates = [0, 8_000_000, 8_000_000, 100, 16_000, 4_000_000, 0];
        let ended: Vec<Bytes> =
            (0..).zip(rates).filter_map(|(second, bps)| busy.look(at(second), Rate::from_bps(bps))).collect();
        assert_eq!(ended, [Bytes::new(2_000_000), Bytes::new(500_000)]);
        let mut sizes = Sizes::new(None);
        assert!(sizes.usual() > Bytes::new(5_000_000));
        (0..50).for_each(|_| sizes.learn(Bytes::new(100_000)));
        assert!(sizes.usual() < Bytes::new(200_000));
        (0..200).for_each(|_| sizes.learn(Bytes::new(50_000_000)));
        assert!(sizes.usual() > Bytes::new(20_000_000));
    }
}
