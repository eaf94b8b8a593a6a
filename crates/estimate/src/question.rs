//! Whether more than a rate is free: a few streams of that rate, instead of a whole measurement.
//!
//! The delay of a stream grows if its rate is above what is free, and how fast it grows tells by how much. Two or three streams of 50 kB
//! therefore decide between two paths where a measurement takes 2 MB. The answer is no verdict but a likelihood, by the same model as
//! [`crate::belief`], so that whoever asks can weigh it with what was known before.

use headway_units::{Bytes, Duration, Instant, Rate};

use crate::belief::Segment;
use crate::measure::{Failure, Step};
use crate::normal::Normal;
use crate::reflected::{Reflected, Transition, ln_sum};
use crate::stream::{Refusal, Schedule, StreamRecord};

/// At most so many streams.
const STREAMS: u32 = 3;
/// Packets of a stream: fewer show nothing but noise, and with more the next stream would not tell anything new. Range 12 to 100.
const PACKETS: u64 = 32;
/// Time on the link of a packet: full packets would occupy slow links for long.
const PACKET_TIME: Duration = Duration::from_us(2_400);
/// The smallest packet on the wire.
const SMALLEST: Bytes = Bytes::new(300);
/// Parts of a stream whose growth is judged one by one. Range 2 to 8.
const PARTS: usize = 4;
/// The answer is clear with such odds, either way, and no further stream is sent. Range 0.8 to 0.999.
const CLEAR: f64 = 0.97;
/// Size of a packet of other traffic, on the wire.
const FULL_PACKET: Bytes = Bytes::new(1_538);
/// The noise of other traffic that is thought possible, as the variance of the delay per unit of time in packet times of the link: a few
/// smooth flows, or batches of some 25 packets.
const NOISE: [f64; NOISES] = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
/// How many kinds of noise are thought possible.
pub const NOISES: usize = 6;
/// Standard deviation of timestamps in software, in seconds.
const STAMP: f64 = 10e-6;
/// Share of parts whose delay has nothing to do with a queue, and the packet times over which that delay may be anything, as in
/// measurements.
const STRAY: (f64, f64) = (0.01, 50.0);
/// Streams that the sender or a clock spoiled, after which it is given up.
const MAX_REFUSED: u32 = 4;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionConfig {
    /// The rate of the streams, counting bytes on the wire.
    pub rate: Rate,
    /// The most that may be sent, on the wire.
    pub most: Bytes,
    /// Size of the largest packet on the wire.
    pub packet: Bytes,
    /// The round-trip time, which the pause after a stream counts from.
    pub rtt: Duration,
    /// The capacity of the narrow link, if it is known: it says when the answer is clear.
    pub capacity: Option<Rate>,
}

impl QuestionConfig {
    /// Returns the most that a question about a rate costs, with packets up to this size.
    pub fn usual_cost(rate: Rate, packet: Bytes) -> Bytes {
        packet_size(rate, packet) * (PACKETS * u64::from(STREAMS))
    }

    /// Returns the stream that is sent up to three times.
    fn schedule(&self) -> Schedule {
        Schedule::single_rate(self.rate, PACKETS as usize - 1, packet_size(self.rate, self.packet))
    }
}

/// Returns the size of packets on the wire: smaller ones at low rates.
fn packet_size(rate: Rate, most: Bytes) -> Bytes {
    rate.bytes_in(PACKET_TIME).max(SMALLEST).min(most)
}

/// A question while it is asked. It is driven like a [`Measurement`](crate::measure::Measurement).
#[derive(Clone, Debug)]
pub struct Question {
    config: QuestionConfig,
    reply: Reply,
    ready: Instant,
    refused: u32,
    last: Option<Refusal>,
    is_clear: bool,
}

impl Question {
    /// Creates one of which nothing has been sent.
    pub fn new(config: QuestionConfig, now: Instant) -> Question {
        let reply = Reply {
            rate: config.rate,
            segments: Vec::new(),
            streams: 0,
            packets: 0,
            lost: 0,
            bytes: Bytes::ZERO,
            normal: Normal::new(),
        };
        Question { config, reply, ready: now, refused: 0, last: None, is_clear: false }
    }

    /// Returns the next stream to send, or that the answer is there.
    pub fn next_step(&mut self, now: Instant) -> Step {
        let schedule = self.config.schedule();
        let bytes = schedule.packet * schedule.packets() as u64;
        let is_over = self.is_clear || self.reply.streams >= STREAMS || self.refused >= MAX_REFUSED;
        if is_over || self.reply.bytes + bytes > self.config.most {
            return Step::Done;
        }
        if self.ready > now {
            return Step::Wait(self.ready - now);
        }
        Step::Send(schedule)
    }

    /// Takes what became of a stream, and the reason if the sender or a clock spoiled it.
    pub fn observe(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>) {
        let lost = record.lost();
        self.reply.bytes += record.packet * record.arrivals.len() as u64;
        self.reply.packets += record.arrivals.len() as u64;
        self.reply.lost += lost as u64;
        let spoiled = refusal.or((lost == record.arrivals.len()).then_some(Refusal::Lost));
        if let Some(refusal) = spoiled {
            self.refused += 1;
            self.last = Some(refusal);
            self.ready = now + self.config.rtt;
            return;
        }
        let sorted = record.in_order();
        let added = self.reply.add(sorted.as_ref().unwrap_or(record));
        self.reply.streams += 1;
        // What a stream left in the queue is gone after a while, of which one round trip has passed.
        self.ready = now + (added.scale(2.0) - self.config.rtt).clamp(Duration::ZERO, Duration::from_ms(500));
        let odds = self.reply.odds_of_more(self.config.capacity);
        self.is_clear = !(1.0 - CLEAR..=CLEAR).contains(&odds);
    }

    /// Returns what has been learned.
    ///
    /// # Errors
    /// When no stream could be used.
    pub fn answer(&self) -> Result<Reply, Failure> {
        match self.last {
            Some(Refusal::Lost) if self.reply.streams == 0 && self.reply.lost == self.reply.packets => {
                Err(Failure::AllLost)
            }
            Some(refusal) if self.reply.streams == 0 => Err(refusal.into()),
            None if self.reply.streams == 0 => Err(Failure::Unfinished),
            _ => Ok(self.reply.clone()),
        }
    }

    /// Returns the bytes sent so far, on the wire.
    pub fn bytes(&self) -> Bytes {
        self.reply.bytes
    }
}

/// What streams of one rate said about what is free.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The rate that was asked for.
    pub rate: Rate,
    /// Streams that were used.
    pub streams: u32,
    /// Packets that were sent.
    pub packets: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Bytes sent, on the wire.
    pub bytes: Bytes,
    segments: Vec<Segment>,
    normal: Normal,
}

impl Reply {
    /// Adds the parts of a stream; returns by how much the delay has grown.
    fn add(&mut self, record: &StreamRecord) -> Duration {
        let arrived: Vec<_> =
            record.arrivals.iter().filter_map(|one| Some((one, one.one_way_delay()?))).collect();
        let Some(lowest) = arrived.iter().map(|(_, delay)| *delay).min() else { return Duration::ZERO };
        let highest = arrived.iter().map(|(_, delay)| *delay).max().unwrap_or(lowest);
        let parts = PARTS.min(arrived.len().saturating_sub(1));
        for part in 0..parts {
            let end = |number: usize| arrived[number * (arrived.len() - 1) / parts];
            let ((first, before), (last, after)) = (end(part), end(part + 1));
            let time = last.sent - first.sent;
            let bytes = record.packet * u64::from(last.index - first.index);
            let Some(rate) = Rate::of(bytes, time) else { continue };
            let (from, to) = ((before - lowest).secs_f64(), (after - lowest).secs_f64());
            self.segments.push(Segment { rate, transition: Transition { from, to, time: time.secs_f64() } });
        }
        highest - lowest
    }

    /// Returns the logarithm of the likelihood of what was seen if `available` are free before a tight link of `capacity`, for each kind
    /// of noise, from the smoothest traffic to the most bursty.
    pub fn ln_likelihoods(&self, capacity: Rate, available: Rate) -> [f64; NOISES] {
        let packet_time = capacity.time_for(FULL_PACKET).secs_f64().max(1e-9);
        let resolution = packet_time / 2.0;
        let stray = (STRAY.0 / (2.0 * STRAY.1)).ln();
        NOISE.map(|noise| {
            let part = |segment: &Segment| {
                let transition = segment.transition;
                let variance = noise * packet_time + STAMP * STAMP / transition.time;
                let drift = (segment.rate.bps_f64() - available.bps_f64()) / capacity.bps_f64();
                let motion = Reflected { drift, variance };
                let fits = if transition.to <= resolution {
                    let to = resolution.max(variance);
                    motion.ln_at_most(&Transition { to, ..transition }, &self.normal)
                } else {
                    motion.ln_density(&transition, &self.normal) + resolution.ln()
                };
                ln_sum(fits, stray)
            };
            self.segments.iter().map(part).sum()
        })
    }

    /// Returns the probability that more than the rate is free, if anything up to the capacity was equally likely before.
    pub fn odds_of_more(&self, capacity: Option<Rate>) -> f64 {
        /// Points on either side of the rate.
        const POINTS: u32 = 8;
        let capacity = capacity.unwrap_or(self.rate.scale(2.0)).max(self.rate.scale(1.1));
        let side = |low: f64, high: f64| -> f64 {
            let point = |number: u32| {
                let part = (f64::from(number) + 0.5) / f64::from(POINTS);
                self.ln_likelihoods(capacity, Rate::from_bps_f64(low + (high - low) * part))
            };
            let points: Vec<f64> = (0..POINTS).flat_map(point).collect();
            points.iter().map(|ln| ln.exp()).sum::<f64>() * (high - low)
        };
        let (less, more) = (side(0.0, self.rate.bps_f64()), side(self.rate.bps_f64(), capacity.bps_f64()));
        if less + more > 0.0 { more / (less + more) } else { 0.5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Arrival;

    const PACKET: Bytes = Bytes::new(1_538);

    /// Asks whether 20 Mb/s are free on a link of 50 Mb/s with so many, as a fluid without noise.
    fn asked(free: f64, loses: bool) -> Question {
        let rate = Rate::from_mbps(20.0);
        let (rtt, capacity) = (Duration::from_ms(20), Some(Rate::from_mbps(50.0)));
        let most = QuestionConfig::usual_cost(rate, PACKET);
        let mut now = Instant::from_ns(1_000_000);
        let mut question = Question::new(QuestionConfig { rate, most, packet: PACKET, rtt, capacity }, now);
        loop {
            let schedule = match question.next_step(now) {
                Step::Send(schedule) => schedule,
                Step::Wait(time) => {
                    now += time;
                    continue;
                }
                Step::Done => return question,
            };
            let growth = ((20.0 - free) / 50.0).max(0.0);
            let arrival = |index: usize| {
                let sent = now + schedule.gaps[0] * index as i64;
                let delay = rtt / 2 + (sent - now).scale(growth);
                let received = (!loses).then_some(sent + delay);
                Arrival { index: index as u32, size: schedule.packet, sent, received }
            };
            let arrivals = (0..schedule.packets()).map(arrival).collect();
            let (packet, average) = (schedule.packet, schedule.average);
            let record = StreamRecord { id: 0, packet, average, intended: schedule.gaps.clone(), arrivals };
            now += schedule.duration() + rtt;
            question.observe(now, &record, None);
        }
    }

    #[test]
    fn what_is_clear_takes_one_stream_and_three_cost_at_most_300_kb() {
        assert_eq!(asked(5.0, false).answer().map_or(0, |reply| reply.streams), 1);
        let most = QuestionConfig::usual_cost(Rate::from_mbps(20.0), PACKET);
        assert!(asked(19.5, false).bytes() <= most && most <= Bytes::new(300_000));
    }

    #[test]
    fn the_answer_tells_by_how_much_the_rate_was_too_high() {
        let reply = asked(8.0, false).answer().expect("an answer");
        assert!(reply.odds_of_more(Some(Rate::from_mbps(50.0))) < 0.05);
        let capacity = Rate::from_mbps(50.0);
        let likelihood = |mbps: f64| reply.ln_likelihoods(capacity, Rate::from_mbps(mbps))[1];
        let best =
            (1..30).map(f64::from).max_by(|one, other| likelihood(*one).total_cmp(&likelihood(*other)));
        assert!(best.is_some_and(|best| (best - 8.0).abs() <= 1.0), "{best:?}");
        assert!(asked(40.0, false).answer().is_ok_and(|reply| reply.odds_of_more(Some(capacity)) > 0.8));
    }

    #[test]
    fn streams_that_vanish_are_a_failure_that_says_so() {
        assert_eq!(asked(8.0, true).answer().err(), Some(Failure::AllLost));
    }
}
