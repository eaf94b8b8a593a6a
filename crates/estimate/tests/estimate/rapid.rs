//! TCP Rapid's integers in C against the same algorithms in Rust, on a million streams in a release build.

use headway_arithmetic::rapid;
use headway_estimate::denoise::{Denoise, SpikeThresholds, bass_pass, centred_mean};
use headway_estimate::stream::{DelayedAcks, next_gap, p_stream_gaps};
use headway_estimate::{Bound, Excursion, StreamEstimate};
use headway_estimate::{Gaps, Refusal, Schedule, Shape};
use headway_host::LineClock;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::support::{PACKET, Path, same_average, send};

const STREAMS: usize = if cfg!(debug_assertions) { 5_000 } else { 1_000_000 };
/// Fraction bits of a relative margin.
const ONE: f64 = 1_048_576.0;

/// Memory of both sides.
#[derive(Default)]
struct Sides {
    rust: Gaps,
    means: Vec<Duration>,
    c: rapid::Gaps,
    scratch: rapid::Gaps,
}

impl Sides {
    fn fill(&mut self, gaps: &[(u64, u64)]) {
        self.rust.clear();
        for (send, receive) in gaps {
            self.rust.push(Duration::from_ns(*send as i64), Duration::from_ns(*receive as i64));
        }
        self.c.fill(gaps.iter().copied());
    }

    /// Asserts that both have the same gaps.
    fn compare(&self) {
        let same = |rust: &[Duration], c: &[u64]| {
            rust.len() == c.len() && rust.iter().zip(c).all(|(rust, c)| rust.ns() == *c as i64)
        };
        assert!(same(&self.rust.send, self.c.send()), "{:?} {:?}", self.rust.send, self.c.send());
        assert!(same(&self.rust.receive, self.c.receive()), "{:?} {:?}", self.rust.receive, self.c.receive());
    }
}

/// A stream of up to 192 packets: noise, coalescing, bursts, stairs, or nothing that a path would do.
fn random_gaps(rng: &mut Pcg64Mcg, gaps: &mut Vec<(u64, u64)>) {
    gaps.clear();
    let length = if rng.random_bool(0.8) { 64 } else { rng.random_range(0..=192) };
    let gap = 100 << rng.random_range(0..17);
    let noise = 1 + (gap >> rng.random_range(0..8));
    let event = rng.random_range(1..40);
    let kind = rng.random_range(0..8);
    let mut held: u64 = 0;
    for i in 0..length {
        let send = gap - gap * i / (2 * length) + rng.random_range(0..noise);
        let receive = send + rng.random_range(0..noise);
        let pair = match kind {
            0..3 => (send, receive),
            3..6 => {
                held += receive;
                let spike = rng.random_range(0..event) == 0;
                let receive = if spike { std::mem::take(&mut held) } else { 800.min(held) };
                held = held.saturating_sub(800);
                (send, receive)
            }
            6 => (send, i * noise),
            _ => {
                let any =
                    |rng: &mut Pcg64Mcg, most: u32| rng.random::<u64>() >> (64 - rng.random_range(1..most));
                (any(rng, 40), any(rng, 51))
            }
        };
        gaps.push(pair);
    }
}

fn thresholds(rng: &mut Pcg64Mcg) -> rapid::Thresholds {
    let mut any = || rng.random::<u32>() >> rng.random_range(1..32);
    rapid::Thresholds { up: any(), down: any() }
}

fn in_rust(thresholds: rapid::Thresholds) -> SpikeThresholds {
    let ns = |ns: u32| Duration::from_ns(i64::from(ns));
    SpikeThresholds { up: ns(thresholds.up), down: ns(thresholds.down) }
}

fn same_estimate(
    rust: Result<StreamEstimate, Refusal>,
    c: Result<rapid::Estimate, rapid::Refusal>,
    line: u64,
) {
    let c = match c {
        Ok(estimate) => Ok(StreamEstimate {
            rate: Rate::from_bps(estimate.rate),
            bound: match estimate.bound {
                rapid::Bound::Within => Bound::Within,
                rapid::Bound::AtLeast => Bound::AtLeast,
                rapid::Bound::AtMost => Bound::AtMost,
            },
            interval: None,
        }),
        Err(rapid::Refusal::TooShort) => Err(Refusal::TooShort),
        Err(rapid::Refusal::SenderGaps) => Err(Refusal::SenderGaps),
    };
    let rust =
        rust.map(|estimate| StreamEstimate { rate: estimate.rate.min(Rate::from_bps(line)), ..estimate });
    assert_eq!(rust, c);
}

/// Bit for bit: every pass, the mean with any window, the search with any margins, and all of it
/// with the usual ones.
#[test]
fn denoising_and_search_equal_those_in_rust() {
    let mut rng = Pcg64Mcg::seed_from_u64(29);
    let (mut sides, mut gaps) = (Sides::default(), Vec::new());
    let config = rapid::Config::new(rapid::Preset::Default, 10_000_000_000, 9038, 10_000_000_000);
    let usual = Denoise::default();
    let mut estimated = 0;
    for _ in 0..STREAMS {
        random_gaps(&mut rng, &mut gaps);
        sides.fill(&gaps);
        let limits = thresholds(&mut rng);
        let rust = bass_pass(&mut sides.rust.send, &mut sides.rust.receive, in_rust(limits));
        let c = sides.c.bass_pass(limits);
        assert_eq!((rust.changed, rust.head, rust.tail), (c.changed(), c.head(), c.tail()));
        sides.compare();

        let window = rng.random_range(0..100);
        centred_mean(&mut sides.rust.send, window, &mut sides.means);
        centred_mean(&mut sides.rust.receive, window, &mut sides.means);
        sides.c.smooth(window as u32, &mut sides.scratch);
        sides.compare();

        let settings = rapid::Excursion {
            margin: rng.random::<u32>() >> rng.random_range(1..32),
            relative: rng.random_range(0..=1 << 20) >> rng.random_range(0..20),
            min_length: rng.random_range(1..12),
        };
        let excursion = Excursion {
            margin: Duration::from_ns(i64::from(settings.margin)),
            relative_margin: f64::from(settings.relative) / ONE,
            min_length: settings.min_length as usize,
        };
        let packet = rng.random_range(64..rapid::MAX_PACKET);
        let rust = excursion.estimate(Bytes::new(u64::from(packet)), &sides.rust);
        same_estimate(rust, sides.c.search(&settings, packet), u64::MAX);

        sides.fill(&gaps);
        let rust = usual.apply(&mut sides.rust, &mut sides.means).map(|_| ());
        let c = sides.c.denoise(&config, 16, &mut sides.scratch);
        assert_eq!(rust.is_ok(), c.is_ok());
        if c.is_ok() {
            sides.compare();
        }
        let closed_loop = Excursion::default().with_relative_margin(0.02);
        let rust = rust.and_then(|()| closed_loop.estimate(PACKET, &sides.rust));
        sides.c.fill(gaps.iter().copied());
        let c = sides.c.estimate(&config, 16, &mut sides.scratch);
        estimated += usize::from(c.is_ok());
        assert!(c.is_err() || c.is_ok_and(|estimate| estimate.rate <= config.line));
        same_estimate(rust, c, config.line);
    }
    assert!(estimated > STREAMS / 2, "{estimated}");
}

/// Bit for bit, whatever the stamps are: absent, zero, equal, from the past, wrapped or random.
#[test]
fn spreading_of_delayed_acks_equals_that_in_rust() {
    let mut rng = Pcg64Mcg::seed_from_u64(28);
    let (mut found, mut gaps) = (Vec::new(), Gaps::default());
    // Connections of 192 packets: the integers begin anew when no stamp came for so long.
    for _ in 0..STREAMS / 3 {
        let length = [4, 16, 48, 64, 192][rng.random_range(0..5)];
        let (mut rust, mut c) = (DelayedAcks::default(), rapid::Acks::new(length, 1000));
        let mut now: u32 = rng.random();
        let (every, kind) = (rng.random_range(1..6), rng.random_range(0..8));
        let first: u32 = rng.random();
        for i in 0..192 {
            let gap = rng.random::<u64>() >> rng.random_range(25..64);
            now = match kind {
                0..5 => now.wrapping_add(rng.random_range(0..100)),
                5 => now,
                6 => now.wrapping_sub(rng.random_range(0..100)).wrapping_add(rng.random_range(0..100)),
                _ => rng.random(),
            };
            let stamped = rng.random_range(0..every) == 0;
            rust.push(Duration::from_ns(gap as i64), stamped.then_some(now));
            let (stream, index) = (first.wrapping_add(i / length), i % length);
            let stamp = if stamped { now } else { 0 };
            found.clear();
            c.push(&rapid::Packet { gap, stream, index, stamp, ..rapid::Packet::default() }, |gaps| {
                found.push((gaps.send().to_vec(), gaps.receive().to_vec()));
            });
            let mut found = found.iter();
            while rust.take(length as usize, &mut gaps) {
                let (send, receive) = found.next().expect("as many as in Rust");
                assert!(gaps.send.iter().map(|gap| gap.ns() as u64).eq(send.iter().copied()));
                assert!(gaps.receive.iter().map(|gap| gap.ns() as u64).eq(receive.iter().copied()));
            }
            assert!(found.next().is_none());
        }
    }
}

/// Departures are equal to the bit. Gaps differ by rounding: in C the ends of rates are rounded, so that gaps
/// sum to the time of the stream; in Rust each gap is.
#[test]
fn schedules_equal_those_in_rust_but_for_rounding() {
    let mut rng = Pcg64Mcg::seed_from_u64(22);
    let shape = rapid::Shape { rates: 4, packets: 16, ratio: rapid::Shape::RATIO };
    for _ in 0..STREAMS {
        let packet = rng.random_range(1_000..10_000);
        let rate = 100_000.0 * 4e6_f64.powf(rng.random());
        let (average, size) = (Rate::from_bps_f64(rate), Bytes::new(u64::from(packet)));
        let stream = rapid::Stream::new(shape, packet, average.bps());
        let mut integers = [Duration::ZERO; 4];
        p_stream_gaps(average, size, &mut integers);
        let floats = Schedule::p_stream(Shape { rates: 4, packets_per_rate: 1, step: 1.15 }, average, size);
        let (mut c, mut rust) = (rapid::LineClock::new(average.bps()), LineClock::new(average));
        let mut scheduled = 0;
        for index in 0..64 {
            let gap = stream.gap(index);
            let k = index as usize / 16;
            assert!(gap.abs_diff(integers[k].ns() as u64) <= 1, "{gap} {:?} at {average}", integers[k]);
            let float = floats.gaps[k].ns() as f64;
            assert!((gap as f64 - float).abs() <= 0.003 * float + 1.5, "{gap} {float}");
            scheduled += gap;
            assert_eq!(c.depart(scheduled, packet), rust.depart(Instant::from_ns(scheduled), size).ns());
        }
    }
    assert_eq!(next_gap(Duration::from_ns(1_000)).ns(), (1_000 * i64::from(rapid::Shape::RATIO)) >> 16);
}

/// rapid F31, B.1 and B.2, from stamps in microseconds to the estimate, with an ACK for every second packet.
#[test]
fn a_coalescing_receiver_does_not_hide_the_available_bandwidth() {
    for (average, low, high) in [(5.0, 1.03, 1.25), (7.0, 0.95, 1.10), (9.0, 0.80, 0.95)] {
        let streams = send(Path::usual(31), &same_average(400, average), None);
        let mut config = rapid::Config::new(rapid::Preset::Default, 10_000_000_000, 9038, 10_000_000_000);
        config.flags |= rapid::flags::LITERAL_START;
        let mut sender = rapid::Rapid::new(config, 0);
        let (mut sum, mut count, mut packets) = (0, 0, 0_u32);
        let mut last: Option<Instant> = None;
        for (stream, observed) in (0..).zip(&streams) {
            for (index, arrival) in (0..).zip(observed.record.arrivals.iter().skip(1)) {
                let gap = last.map_or(0, |last| (arrival.sent - last).ns() as u64);
                last = Some(arrival.sent);
                packets += 1;
                let received = arrival.received.expect("nothing is lost").ns() / 1000;
                let stamp = if packets.is_multiple_of(2) { received as u32 } else { 0 };
                let before = sender.estimated();
                sender.on_packet(&rapid::Packet { gap, stream, index, stamp, ..rapid::Packet::default() });
                if sender.estimated() != before {
                    sum += sender.latest().expect("just made").rate;
                    count += 1;
                }
            }
        }
        let mean = sum as f64 / f64::from(count) / (average * 1e9);
        println!("{average} Gb/s: {count} estimates of {mean:.3}");
        assert!(count > 380 && (low..high).contains(&mean), "{average}: {count} {mean}");
    }
}
