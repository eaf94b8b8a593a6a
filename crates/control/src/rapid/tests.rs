use std::sync::Arc;

use headway_learned::{Model, NoAnswer};
use proptest::prelude::*;

use super::super::testing::{START, ack};
use super::super::{Arrival, Kind};
use super::*;

const WIRE: u64 = 9038;
const LINE: Rate = Rate::from_bps(10_000_000_000);

fn start() -> Start {
    Start { mss: 8948, wire: WIRE as u32, line: Some(LINE), ..START }
}

fn rapid(parameters: &str) -> Rapid {
    let parameters =
        if parameters.is_empty() { RapidParameters::default() } else { parameters.parse().expect("valid") };
    Rapid::new(parameters, &start())
}

fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

/// A flow over a first-in, first-out link of rate `free`, whose ACKs return `delay` ns after the
/// packet left the link.
struct Path {
    rapid: Rapid,
    free: Rate,
    delay: u64,
    /// When the host's line and the link become free (ns).
    line_free: u64,
    link_free: u64,
    segment: u64,
    /// Departure and stamp (us) of the packets whose ACKs are under way, and when these arrive.
    acks: std::collections::VecDeque<(u64, u64, u32)>,
    /// Longest wait at the link (ns).
    longest: u64,
    now: u64,
}

impl Path {
    fn new(mut rapid: Rapid, free: Rate, delay: u64) -> Path {
        rapid.on_open(at(0), Duration::from_ns(delay as i64));
        let acks = std::collections::VecDeque::new();
        Path { rapid, free, delay, line_free: 0, link_free: 0, segment: 0, acks, longest: 0, now: 0 }
    }

    /// Sends and receives until `end` (ns).
    fn run(&mut self, end: u64) {
        loop {
            let due = self.rapid.schedule(at(self.now), false).ns().max(self.line_free);
            match self.acks.front().copied() {
                Some((arrival, ..)) if arrival <= due => {
                    self.now = self.now.max(arrival);
                    self.take_ack();
                }
                _ if due > end => return,
                _ => {
                    self.now = self.now.max(due);
                    self.send();
                }
            }
        }
    }

    fn send(&mut self) {
        let now = self.now;
        self.rapid.on_departure(&Departure {
            at: at(now),
            segment: self.segment,
            retransmission: false,
            full: true,
        });
        self.line_free = now + LINE.time_for(headway_units::Bytes::new(WIRE)).ns() as u64;
        let begin = self.link_free.max(now);
        self.longest = self.longest.max(begin - now);
        self.link_free = begin + self.free.time_for(headway_units::Bytes::new(WIRE)).ns() as u64;
        self.acks.push_back((self.link_free + self.delay, self.segment, (self.link_free / 1000) as u32));
        self.segment += 1;
    }

    fn take_ack(&mut self) {
        let Some((now, segment, stamp)) = self.acks.pop_front() else { return };
        let arrival = Some(Arrival { segment, stamp: Some(stamp.max(1)) });
        let rtt = Some(Duration::from_ns(self.delay as i64));
        let una = segment + 1;
        self.rapid.on_ack(&Ack {
            now: at(now),
            rtt,
            smoothed: rtt,
            una,
            next: self.segment,
            arrival,
            ..ack(1)
        });
    }

    /// The p-stream that is being sent, and the index of its next packet.
    fn place(&self) -> Option<(u32, u32)> {
        self.rapid.departures.stream().map(|(stream, index)| (stream.id, index))
    }

    fn rate(&self) -> f64 {
        self.rapid.pacing_rate().expect("always").mbps() / 1000.0
    }
}

#[test]
fn the_rate_reaches_what_is_free_and_stays_there() {
    for free in [1.0, 4.0, 7.5] {
        let mut path = Path::new(rapid("published"), Rate::from_mbps(1000.0 * free), 5_000_000);
        path.run(6_000_000_000);
        let rate = path.rate();
        assert!((0.85 * free..=1.02 * free).contains(&rate), "{rate} Gb/s of {free}");
    }
}

#[test]
fn an_idle_path_is_filled_to_the_line_rate() {
    let mut path = Path::new(rapid("published,tau=10ms,kd=1/3"), LINE, 5_000_000);
    path.run(3_000_000_000);
    assert!(path.rate() > 9.3, "{}", path.rate());
}

#[test]
fn a_loss_episode_cuts_the_rate_by_a_quarter_once() {
    let mut path = Path::new(rapid("published"), Rate::from_mbps(1000.0 * 4.0), 5_000_000);
    path.run(3_000_000_000);
    let before = path.rapid.rapid.rate();
    let rapid = &mut path.rapid;
    rapid.on_congestion(at(0), 100, Congestion::Loss);
    rapid.on_timeout(at(0), 100, true);
    for state in [RecoveryState::Recovery, RecoveryState::Loss] {
        rapid.on_ack(&Ack { state, ..ack(1) });
        assert_eq!(rapid.rapid.rate(), before);
    }
    for _ in 0..3 {
        rapid.on_ack(&ack(1));
        assert_eq!(rapid.rapid.rate(), before - before / 4);
    }
}

#[test]
fn a_spurious_episode_cuts_nothing() {
    let mut rapid = rapid("published");
    rapid.on_open(at(0), Duration::from_ms(5));
    let before = rapid.pacing_rate();
    rapid.on_congestion(at(0), 100, Congestion::Loss);
    rapid.on_undo(0.0, 0.0);
    rapid.on_ack(&ack(1));
    assert_eq!(rapid.pacing_rate(), before);
}

#[test]
fn the_window_is_two_bandwidth_delay_products_and_never_below_two_streams() {
    let mut rapid = rapid("");
    assert_eq!(rapid.window(), 128.0);
    rapid.on_open(at(0), Duration::from_ms(30));
    // 10 Gb/s times 30 ms are 4149 packets of 9038 B.
    assert!((rapid.window() - 2.0 * 4149.15).abs() < 0.1, "{}", rapid.window());
    rapid.on_congestion(at(0), 100, Congestion::Loss);
    rapid.on_timeout(at(0), 100, false);
    assert!(rapid.flight_limit() > 8_000);
    rapid.on_open(at(0), Duration::from_us(1));
    assert_eq!(rapid.flight_limit(), 128);
}

#[test]
fn a_stream_gets_its_rate_when_its_first_packet_is_next() {
    let mut path = Path::new(rapid("published"), Rate::from_mbps(2000.0), 5_000_000);
    path.run(2_000_000_000);
    while path.place().is_some_and(|(_, index)| index < 64) {
        path.now = path.now.max(path.rapid.schedule(at(path.now), false).ns());
        path.send();
    }
    // A loss episode ends after the last packet of a stream has left.
    path.rapid.on_congestion(at(path.now), 1, Congestion::Loss);
    path.rapid.on_ack(&ack(1));
    path.rapid.schedule(at(path.now), false);
    let rate = path.rapid.departures.stream().map(|(stream, _)| Rate::from_bps(stream.rate));
    assert_eq!(rate, path.rapid.pacing_rate());
}

#[test]
fn after_an_idle_time_the_next_packet_leaves_at_once_and_begins_a_stream() {
    let mut path = Path::new(rapid("published"), Rate::from_mbps(1000.0 * 2.0), 5_000_000);
    path.run(2_000_000_000);
    let before = path.place().expect("has sent");
    let later = path.now + 1_000_000_000;
    let due = path.rapid.schedule(at(later), true);
    assert_eq!(due, at(later));
    assert_eq!(path.place(), Some((before.0 + 1, 0)));
    // Asked again it says the same.
    assert_eq!(path.rapid.schedule(at(later + 10), false), due);
}

#[test]
fn parameters_print_as_they_are_read() {
    for text in [
        "",
        "published",
        "published,tau=10ms,kd=1/3",
        "tau=5ms,kd=1,gamma=1,n=4x48,range=30/100,margin=1/100,coarse=20us/10us,fine=1500ns/1us,window=1",
        "coalescing=0ms,start=literal,length=total,denoise=window,censored=fall,open=ignore",
        "published,start=line",
    ] {
        let name = if text.is_empty() { "rapid".to_owned() } else { format!("rapid:{text}") };
        let kind: Kind = name.parse().expect(text);
        assert_eq!(kind.to_string(), name);
    }
    assert_eq!(
        "rapid:kd=0.25,tau=50000us,margin=2%".parse::<Kind>(),
        "rapid"
            .parse::<Kind>()
            .map(|_| { "rapid:kd=25/100,margin=2/100".parse().expect("the same as fractions") })
    );
}

#[test]
fn what_is_out_of_range_is_refused() {
    for text in [
        "tau=0",
        "tau=1",
        "tau=31s",
        "kd=0",
        "kd=2",
        "kd=1/0",
        "gamma=0",
        "gamma=65",
        "n=4",
        "n=9x4",
        "n=4x49",
        "range=9",
        "margin=1.1",
        "window=0",
        "window=193",
        "coalescing=-1us",
        "coarse=20us",
        "start=slow",
        "v9",
        "publish",
        "published=1",
        "=",
        ",",
    ] {
        assert!(format!("rapid:{text}").parse::<Kind>().is_err(), "{text}");
    }
}

#[test]
fn mistakes_name_the_parameter() {
    let mistake = |text: &str| text.parse::<Kind>().expect_err(text).to_string();
    assert_eq!(
        mistake("rapid:tau=10ms,kd=2"),
        "`rapid:tau=10ms,kd=2`: `kd` takes a share above 0 and up to 1, such as `1/3`"
    );
    assert!(
        mistake("rapid:speed=3")
            .starts_with("`rapid:speed=3`: `speed=3` is none of its parameters: `published`, tau,")
    );
}

#[test]
fn dilation_makes_times_longer() {
    let kind: Kind = "rapid:tau=10ms,fine=2us/1us,kd=1/3".parse().expect("valid");
    assert_eq!(kind.dilated(10).to_string(), "rapid:tau=100ms,kd=1/3,fine=20us/10us,coalescing=1200us");
}

proptest! {
    /// Whatever receivers stamp and acknowledge, the rate stays between its limits and the flow goes on.
    #[test]
    fn no_sequence_of_acks_stalls_the_flow_or_exceeds_the_line(
        steps in proptest::collection::vec((0_u8..8, any::<u32>(), 0_u64..200, 0_u64..3_000_000), 1..400),
        parameters in proptest::sample::select(vec!["", "published", "start=literal", "n=1x1,gamma=1", "denoise=window"]),
    ) {
        let mut rapid = rapid(parameters);
        rapid.on_open(at(0), Duration::from_ms(5));
        let (mut now, mut next, mut una) = (0, 0, 0);
        for (what, stamp, back, wait) in steps {
            now += wait;
            let due = rapid.schedule(at(now), what == 7);
            // The slowest packets leave 0.88 s after the one before.
            prop_assert!(due.ns() < now + 900_000_000, "{due:?} at {now}");
            now = now.max(due.ns());
            rapid.on_departure(&Departure { at: at(now), segment: next, retransmission: what == 6, full: what != 5 });
            next += u64::from(what != 6);
            let segment = next.saturating_sub(back + 1);
            una = if what < 3 { una.max(segment + 1) } else { una };
            let arrival = (what != 3).then_some(Arrival { segment, stamp: (what != 4).then_some(stamp) });
            let state = if what == 2 { RecoveryState::Recovery } else { RecoveryState::Open };
            match stamp % 31 {
                0 => rapid.on_congestion(at(now), 1, Congestion::Loss),
                1 => rapid.on_timeout(at(now), 1, false),
                2 => rapid.on_undo(1.0, 1.0),
                _ => {}
            }
            rapid.on_ack(&Ack { now: at(now), una, next, arrival, state, ..ack(1) });
            let rate = rapid.pacing_rate().expect("always");
            prop_assert!(rate <= LINE && rate >= Rate::from_bps(100_000));
            // What is acknowledged is not kept.
            let mut originals = rapid.flight.packets().filter(|packet| !packet.is_retransmission());
            prop_assert!(originals.all(|packet| u64::from(packet.segment()) >= una));
        }
    }
}

/// A model that was trained on streams of the default shape.
fn model(name: &str) -> Model {
    let path = format!("{}/../../models/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Model::parse(&std::fs::read(path).expect("a model")).expect("a model file")
}

#[test]
fn a_model_is_taken_for_streams_of_its_shape_only() {
    let model = model("rapid");
    let check =
        |parameters: &str| parameters.parse::<RapidParameters>().expect(parameters).check_model(&model, 1538);
    assert_eq!(check("tau=20ms,n=4x16"), Ok(()));
    assert_eq!(check("n=4x12"), Err(NoAnswer::OtherLength(48, 64)));
    assert_eq!(check("range=100%"), Err(NoAnswer::OtherShape));
    let other = super::tests::model("p-streams");
    assert_eq!(RapidParameters::default().check_model(&other, 1538), Err(NoAnswer::OtherLength(64, 48)));
}

#[test]
fn a_model_answers_for_streams_that_it_has_seen_with_one_of_their_rates() {
    let mut learned = Learned::new(Arc::new(model("rapid")), WIRE as u32);
    let shape = rapid::Shape { rates: 4, packets: 16, ratio: rapid::Shape::RATIO };
    let stream = rapid::Stream::new(shape, WIRE as u32, 5_000_000_000);
    let send = |index| stream.gap(index);
    let mut gaps = rapid::Gaps::default();
    // Nothing but the stream's own packets crosses a link of 10 Gb/s: more is free than its highest rate.
    gaps.fill((0..64).map(|index| (send(index), send(index))));
    let free = learned.estimate(&gaps).expect("an answer");
    assert_eq!(free.bound, rapid::Bound::AtLeast, "{free:?}");
    // Twice the gaps: the stream finds half of what it sends.
    gaps.fill((0..64).map(|index| (send(index), 2 * send(index))));
    assert!(learned.estimate(&gaps).is_none_or(|full| full.rate < 4_700_000_000));
    gaps.fill((0..60).map(|index| (send(index), send(index))));
    assert_eq!(learned.estimate(&gaps), None, "a stream with holes is BASS's");
}
