//! Whether more than a rate is free: a few streams of that rate, instead of a whole measurement.
//!
//! The delay of a stream grows if its rate is above what is free, and how fast it grows tells by how much.
//! Two or three streams of 50 kB therefore decide between two paths where a measurement takes 2 MB. The
//! answer is no verdict but a likelihood, by the same model as [`crate::belief`], so that the caller can
//! weigh it with what was known before. Answers are multiplied, so it must be highest at the truth in the
//! mean: where a model of queues cannot be as exact as that, it says nothing.

use headway_units::{Bytes, Duration, Instant, Rate};

use crate::belief::Segment;
use crate::measure::{Failure, MAX_STREAM_PACKETS, Step};
use crate::normal::Normal;
use crate::reflected::{Reflected, Transition, ln_sum};
use crate::stream::{Arrival, Refusal, Schedule, StreamRecord};

/// At most this many streams.
const STREAMS: u32 = 3;
/// Packets of a stream: fewer show nothing but noise, and with more the next stream would not tell anything
/// new. Range 12 to 100.
const PACKETS: u64 = 32;
/// Behind a token bucket there is one stream, of this many packets: before it the bucket is emptied, which
/// costs more than they do.
const PACKETS_AFTER: u64 = 64;
/// A bucket is emptied by so many times its size, as measured, at so many times the capacity: meanwhile a
/// part of that refills it. Range 1.3 to 3 and 2 to 10.
const EMPTIES: (f64, f64) = (1.4, 6.0);
/// A packet counts as delayed by a queue from so many packet times of the link on, and the bucket as empty
/// where this many in a row are. Range 1 to 4 and 4 to 32.
const DELAYED: i64 = 2;
const IN_A_ROW: usize = 8;
/// Time on the link of a packet: full packets would occupy slow links for long.
const PACKET_TIME: Duration = Duration::from_us(2_400);
/// The smallest packet on the wire.
const SMALLEST: Bytes = Bytes::new(300);
/// Packets of the parts of a stream whose growth is judged one by one: with fewer the batches of others are
/// no longer like a normal distribution. Range 8 to 32.
const PART: usize = 16;
/// The answer is clear with such odds, either way, and no further stream is sent. Range 0.8 to 0.999.
const CLEAR: f64 = 0.9;
/// Size of a packet of other traffic, on the wire.
const FULL_PACKET: Bytes = Bytes::new(1_538);
/// How bursty other traffic may be: the variance of its bytes in a time, in packets, by their mean. 1 is that
/// of packets by chance, 0.1 that of a few smooth flows, 30 that of batches of some 15. It is a factor on the
/// share of the link that this traffic has: an empty link has no noise.
const BURSTINESS: [f64; NOISES] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
/// The least share of a link that other traffic has: capacities are measured with an
/// error. Range 0.005 to 0.1.
const LEAST_LOAD: f64 = 0.02;
/// Variance of a delay from where in a packet of others it falls, in squared packet times, for a link that
/// others use fully. Range 0.05 to 0.5.
const WITHIN_PACKET: f64 = 0.17;
/// The lowest delay of a stream may be above that of an empty queue by so many packet times, each with the
/// part of that axis that it stands for.
const RAISED: [(f64, f64); 9] = [
    (0.0, 0.25),
    (0.5, 0.5),
    (1.0, 0.75),
    (2.0, 1.5),
    (4.0, 3.0),
    (8.0, 6.0),
    (16.0, 12.0),
    (32.0, 24.0),
    (64.0, 32.0),
];
/// A stream shows what is free up to this many times its rate. Range 1.05 to 1.3: more lets errors of the
/// model add up, less loses answers.
const SHOWS: f64 = 1.15;
/// How many kinds of noise are thought possible.
pub const NOISES: usize = 6;
/// Standard deviation of timestamps in software, in seconds.
const STAMP: f64 = 10e-6;
/// Share of parts whose delay has nothing to do with a queue, and the packet times over which that delay may
/// be anything, as in measurements.
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
    /// The size of a token bucket that must be empty, or streams would pass at any rate.
    pub bucket: Option<Bytes>,
}

impl QuestionConfig {
    /// Returns the most that a question about a rate costs, with packets up to this size
    /// and this token bucket.
    pub fn usual_cost(rate: Rate, packet: Bytes, bucket: Option<Bytes>) -> Bytes {
        let packet = packet_size(rate, packet);
        match bucket {
            None => packet * (PACKETS * u64::from(STREAMS)),
            Some(bucket) => packet * (emptying(bucket, packet) + PACKETS_AFTER),
        }
    }

    /// Whether a stream that first empties this bucket is one that far ends take: packets
    /// are small at low rates.
    pub fn fits(rate: Rate, packet: Bytes, bucket: Bytes) -> bool {
        emptying(bucket, packet_size(rate, packet)) + PACKETS_AFTER <= MAX_STREAM_PACKETS.into()
    }

    /// Returns how many packets of a stream only empty the bucket.
    fn before(&self) -> usize {
        self.bucket.map_or(0, |bucket| emptying(bucket, packet_size(self.rate, self.packet)) as usize)
    }

    /// Returns the stream that is sent up to three times.
    fn schedule(&self) -> Schedule {
        let packet = packet_size(self.rate, self.packet);
        if self.bucket.is_none() {
            return Schedule::single_rate(self.rate, PACKETS as usize - 1, packet);
        }
        let before = self.before();
        let fast = self.capacity.unwrap_or(self.rate).max(self.rate).scale(EMPTIES.1);
        let mut gaps = vec![fast.time_for(packet); before];
        gaps.resize(before + PACKETS_AFTER as usize - 1, self.rate.time_for(packet));
        Schedule::with_gaps(packet, gaps, self.rate)
    }

    /// Returns the most streams.
    fn streams(&self) -> u32 {
        if self.bucket.is_some() { 1 } else { STREAMS }
    }
}

/// Returns the packets that empty a bucket.
fn emptying(bucket: Bytes, packet: Bytes) -> u64 {
    (EMPTIES.0 * bucket.get() as f64 / packet.get().max(1) as f64).ceil() as u64
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
            passages: Vec::new(),
            streams: 0,
            packets: 0,
            lost: 0,
            bytes: Bytes::ZERO,
            emptied: None,
            normal: Normal::new(),
        };
        Question { config, reply, ready: now, refused: 0, last: None, is_clear: false }
    }

    /// Returns the next stream to send, or that the answer is there.
    pub fn next_step(&mut self, now: Instant) -> Step {
        let schedule = self.config.schedule();
        let bytes = schedule.packet * schedule.packets() as u64;
        let is_over =
            self.is_clear || self.reply.streams >= self.config.streams() || self.refused >= MAX_REFUSED;
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
        let record = sorted.as_ref().unwrap_or(record);
        let before = self.config.before();
        if let (Some(gaps @ [_, ..]), Some(capacity)) = (record.intended.get(..before), self.config.capacity)
        {
            self.reply.emptied = emptied(record, capacity, gaps);
        }
        let added = self.reply.add(record, before);
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

/// Returns what a token bucket has let pass beyond its rate, before the first of many packets was delayed;
/// `gaps` are those of the packets that empty it.
fn emptied(record: &StreamRecord, capacity: Rate, gaps: &[Duration]) -> Option<Bytes> {
    let threshold = capacity.time_for(FULL_PACKET) * DELAYED;
    let delays: Vec<Option<Duration>> = record.arrivals.iter().map(Arrival::one_way_delay).collect();
    let lowest = delays.iter().flatten().min()?;
    let late: Vec<bool> =
        delays.iter().map(|delay| delay.is_none_or(|delay| delay - *lowest > threshold)).collect();
    let first = late.windows(IN_A_ROW).take(gaps.len()).position(|row| row.iter().all(|late| *late))?;
    let refilled = capacity.bytes_in(gaps[..first].iter().copied().sum());
    Some(Bytes::new((record.packet.get() * first as u64).saturating_sub(refilled.get())))
}

/// A stream as it was seen.
#[derive(Clone, Debug)]
struct Passage {
    segments: Vec<Segment>,
    /// Whether the lowest delay is that of an empty queue, because many packets came before
    /// those that are judged.
    is_base_known: bool,
}

/// A link as it might be; times in seconds.
struct Link {
    /// Time of a full packet on it.
    packet_time: f64,
    /// In bit/s.
    capacity: f64,
    /// What is free, as a share of the capacity.
    free: f64,
    /// What other traffic adds to the variance of the delay per unit of time, and once.
    variance: f64,
    within_packet: f64,
}

impl Link {
    /// Returns the logarithm of the likelihood of a stream, whatever the delay of an empty queue is.
    fn ln_likelihood(&self, passage: &Passage, normal: &Normal) -> f64 {
        if passage.is_base_known {
            return self.ln_of_segments(&passage.segments, 0.0, normal);
        }
        let Some(first) = passage.segments.first() else { return 0.0 };
        let mut sum = f64::NEG_INFINITY;
        for (raised, width) in RAISED {
            let shift = raised * self.packet_time;
            let ln = self.ln_at_rest(first.transition.from + shift)
                + self.ln_of_segments(&passage.segments, shift, normal);
            sum = ln_sum(sum, ln + f64::ln(width));
        }
        sum
    }

    /// Returns the logarithm of the likelihood of a delay before the stream: the queue of
    /// other traffic alone.
    fn ln_at_rest(&self, delay: f64) -> f64 {
        let resolution = self.packet_time / 2.0;
        let mean = (self.variance / (2.0 * self.free.max(1e-3))).max(resolution / 4.0);
        if delay <= resolution {
            (1.0 - (-resolution / mean).exp()).max(1e-12).ln()
        } else {
            -delay / mean + (resolution / mean).ln()
        }
    }

    /// Returns the logarithm of the likelihood of segments whose delays are all longer by `shift`.
    fn ln_of_segments(&self, segments: &[Segment], shift: f64, normal: &Normal) -> f64 {
        let resolution = self.packet_time / 2.0;
        let stray = (STRAY.0 / (2.0 * STRAY.1)).ln();
        let part = |segment: &Segment| {
            let Transition { from, to, time } = segment.transition;
            let transition = Transition { from: from + shift, to: to + shift, time };
            let variance = self.variance + (STAMP * STAMP + self.within_packet) / time;
            let motion = Reflected { drift: segment.rate.bps_f64() / self.capacity - self.free, variance };
            let fits = if transition.to <= resolution {
                let to = resolution.max(variance);
                motion.ln_at_most(&Transition { to, ..transition }, normal)
            } else {
                motion.ln_density(&transition, normal) + resolution.ln()
            };
            ln_sum(fits, stray)
        };
        segments.iter().map(part).sum()
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
    /// What was in the bucket that was to be emptied; none if no packet was delayed, so that it
    /// may not be empty yet.
    pub emptied: Option<Bytes>,
    passages: Vec<Passage>,
    normal: Normal,
}

impl Reply {
    /// Adds the parts of a stream behind its first packets, which only show the delay of an empty queue;
    /// returns by how much the delay has grown.
    fn add(&mut self, record: &StreamRecord, before: usize) -> Duration {
        let arrived: Vec<_> =
            record.arrivals.iter().filter_map(|one| Some((one, one.one_way_delay()?))).collect();
        let Some(lowest) = arrived.iter().map(|(_, delay)| *delay).min() else { return Duration::ZERO };
        let highest = arrived.iter().map(|(_, delay)| *delay).max().unwrap_or(lowest);
        let arrived = &arrived[arrived.partition_point(|(one, _)| (one.index as usize) < before)..];
        let parts = arrived.len() / PART;
        let mut segments = Vec::with_capacity(parts);
        for part in 0..parts {
            let end = |number: usize| arrived[number * (arrived.len() - 1) / parts];
            let ((first, before), (last, after)) = (end(part), end(part + 1));
            let time = last.sent - first.sent;
            let bytes = record.packet * u64::from(last.index - first.index);
            let Some(rate) = Rate::of(bytes, time) else { continue };
            let (from, to) = ((before - lowest).secs_f64(), (after - lowest).secs_f64());
            segments.push(Segment { rate, transition: Transition { from, to, time: time.secs_f64() } });
        }
        self.passages.push(Passage { segments, is_base_known: before > 0 });
        highest - lowest
    }

    /// Whether no part of a stream has met a queue.
    pub fn is_flat(&self, capacity: Rate) -> bool {
        let least = capacity.time_for(FULL_PACKET).secs_f64() / 2.0;
        self.passages
            .iter()
            .flat_map(|one| &one.segments)
            .all(|segment| segment.transition.from.max(segment.transition.to) < least)
    }

    /// Returns the logarithm of the likelihood of what was seen if `available` are free before a tight link
    /// of `capacity`, for each kind of other traffic, from the smoothest to the most bursty.
    pub fn ln_likelihoods(&self, capacity: Rate, available: Rate) -> [f64; NOISES] {
        let packet_time = capacity.time_for(FULL_PACKET).secs_f64().max(1e-9);
        // A stream below what is free shows only that this much is free: how much more there is has a part in
        // delays that is too small for a model of queues, and errors of which would add up.
        let free = available.min(self.rate.scale(SHOWS)).bps_f64() / capacity.bps_f64().max(1.0);
        let load = (1.0 - free).max(LEAST_LOAD);
        BURSTINESS.map(|burstiness| {
            let link = Link {
                packet_time,
                capacity: capacity.bps_f64(),
                free,
                variance: burstiness * load * packet_time,
                within_packet: WITHIN_PACKET * load * packet_time * packet_time,
            };
            self.passages.iter().map(|passage| link.ln_likelihood(passage, &self.normal)).sum()
        })
    }

    /// Returns the probability that more than the rate is free, if anything up to the capacity was
    /// equally likely before.
    fn odds_of_more(&self, capacity: Option<Rate>) -> f64 {
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

    const PACKET: Bytes = Bytes::new(1_538);

    /// Asks whether 20 Mb/s are free on a link of 50 Mb/s with so many, as a fluid without noise.
    fn asked(free: f64, loses: bool) -> Question {
        let rate = Rate::from_mbps(20.0);
        let (rtt, capacity) = (Duration::from_ms(20), Some(Rate::from_mbps(50.0)));
        let most = QuestionConfig::usual_cost(rate, PACKET, None);
        let mut now = Instant::from_ns(1_000_000);
        let mut question =
            Question::new(QuestionConfig { rate, most, packet: PACKET, rtt, capacity, bucket: None }, now);
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
        let most = QuestionConfig::usual_cost(Rate::from_mbps(20.0), PACKET, None);
        assert!(asked(19.5, false).bytes() <= most && most <= Bytes::new(300_000));
    }

    #[test]
    fn the_answer_tells_by_how_much_the_rate_was_too_high() {
        let reply = asked(8.0, false).answer().expect("an answer");
        assert!(reply.odds_of_more(Some(Rate::from_mbps(50.0))) < 1.0 - CLEAR);
        let capacity = Rate::from_mbps(50.0);
        let likelihood = |mbps: f64| reply.ln_likelihoods(capacity, Rate::from_mbps(mbps))[1];
        let best =
            (1..30).map(f64::from).max_by(|one, other| likelihood(*one).total_cmp(&likelihood(*other)));
        assert!(best.is_some_and(|best| (best - 8.0).abs() <= 1.0), "{best:?}");
        assert!(asked(40.0, false).answer().is_ok_and(|reply| reply.odds_of_more(Some(capacity)) > 0.8));
    }

    /// Bytes above what is free fill 400 kB of tokens first, and wait at 50 Mb/s after that.
    #[test]
    fn a_bucket_is_emptied_before_the_rate_is_judged() {
        let (rate, rtt, capacity) = (Rate::from_mbps(20.0), Duration::from_ms(20), Rate::from_mbps(50.0));
        let bucket = Some(Bytes::new(400_000));
        let most = QuestionConfig::usual_cost(rate, PACKET, bucket);
        assert!((600_000..700_000).contains(&most.get()), "{most}");
        assert!(QuestionConfig::fits(rate, PACKET, Bytes::new(2_000_000)));
        // Packets of 300 bytes.
        assert!(!QuestionConfig::fits(Rate::from_mbps(1.0), PACKET, Bytes::new(400_000 + 40_000)));
        let odds = |free: f64| {
            let config = QuestionConfig { rate, most, packet: PACKET, rtt, capacity: Some(capacity), bucket };
            let mut question = Question::new(config, Instant::ZERO);
            let Step::Send(schedule) = question.next_step(Instant::ZERO) else { panic!("nothing to send") };
            // Bytes that passed more than were free, of which the bucket holds 400 kB.
            let (mut sent, mut excess) = (Instant::ZERO, 0.0f64);
            let arrival = |index: usize| {
                let queue = (excess - 400_000.0).max(0.0) * 8.0 / 50e6;
                let received = Some(sent + rtt / 2 + Duration::from_secs_f64(queue));
                let arrival = Arrival { index: index as u32, size: PACKET, sent, received };
                let gap = schedule.gaps.get(index).copied().unwrap_or_default();
                excess = (excess + PACKET.get() as f64 - free * 1e6 / 8.0 * gap.secs_f64()).max(0.0);
                sent += gap;
                arrival
            };
            let arrivals = (0..schedule.packets()).map(arrival).collect();
            let (packet, average) = (schedule.packet, schedule.average);
            let record = StreamRecord { id: 0, packet, average, intended: schedule.gaps.clone(), arrivals };
            question.observe(sent + rtt, &record, None);
            assert!(matches!(question.next_step(sent + rtt * 20), Step::Done));
            let reply = question.answer().expect("an answer");
            let emptied = reply.emptied.map_or(0, Bytes::get);
            assert!((250_000..=400_000).contains(&emptied), "{emptied}");
            reply.odds_of_more(Some(capacity))
        };
        assert!(odds(10.0) < 0.1 && odds(35.0) > 0.9, "{} {}", odds(10.0), odds(35.0));
    }

    #[test]
    fn streams_that_vanish_are_a_failure_that_says_so() {
        assert_eq!(asked(8.0, true).answer().err(), Some(Failure::AllLost));
    }
}
