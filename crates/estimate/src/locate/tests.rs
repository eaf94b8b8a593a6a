//! Measurements of modelled paths: links in a row, each with a queue, and cross traffic at each.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const PACKET: Bytes = Bytes::new(1538);

/// The reference path at a tenth of its capacities, in Mb/s; its narrow link is the fifth.
const REFERENCE: [f64; 7] = [50.0, 50.0, 40.0, 60.0, 30.0, 80.0, 60.0];

fn config() -> Config {
    Config {
        packet: PACKET,
        small: Bytes::new(128),
        budget: Bytes::new(3_000_000),
        time: Duration::from_ms(30_000),
        rule: Rule::Step(0.15),
        all: false,
        tight: false,
        quantum: Duration::from_us(2),
        most_packets: 16_384,
        seed: 1,
    }
}

/// A path of links with Poisson cross traffic of full packets, which leaves it after one link.
struct Path {
    /// Time in ns that a full packet takes on each link.
    packet_ns: Vec<f64>,
    /// Share of each link that cross traffic takes.
    loads: Vec<f64>,
    /// When each link becomes idle, and when the next cross packet arrives there, in ns.
    idle: Vec<f64>,
    cross: Vec<f64>,
    /// Share of packets lost, and share of packets that the first link sends twice.
    loss: f64,
    twice: f64,
    /// Most that a packet is delayed after the last link, in ns.
    jitter: f64,
    /// Nodes that answer expired packets.
    answers: bool,
    /// The second number of their addresses.
    network: u8,
    random: Pcg64Mcg,
    now: f64,
    sent: u64,
}

impl Path {
    fn new(mbps: &[f64], load: f64) -> Path {
        let packet_ns = mbps.iter().map(|mbps| PACKET.get() as f64 * 8e3 / mbps).collect();
        let links = mbps.len();
        Path {
            packet_ns,
            loads: vec![load; links],
            idle: vec![0.0; links],
            cross: vec![0.0; links],
            loss: 0.0,
            twice: 0.0,
            jitter: 0.0,
            answers: true,
            network: 0,
            random: Pcg64Mcg::seed_from_u64(7),
            now: 0.0,
            sent: 0,
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns when a packet that arrives at a link at `at` has left it.
    fn cross_link(&mut self, link: usize, at: f64, size: f64) -> f64 {
        let time = self.packet_ns[link];
        while self.loads[link] > 0.0 && self.cross[link] <= at {
            self.idle[link] = self.idle[link].max(self.cross[link]) + time;
            self.cross[link] += -(1.0 - self.uniform()).ln() * time / self.loads[link];
        }
        self.idle[link] = self.idle[link].max(at) + time * size;
        self.idle[link]
    }

    /// Sends trains and returns what both ends see, and how many packets that are not hidden arrived twice.
    fn send(&mut self, schedule: &TrainSchedule) -> (Vec<TrainRecord>, Vec<(u8, IpAddr)>, usize) {
        let size = schedule.packet.get() as f64 / PACKET.get() as f64;
        self.sent += schedule.bytes().get();
        // Packets in order of time, link by link: trains may overlap.
        let mut starts = vec![self.now];
        for gap in &schedule.gaps {
            starts.push(starts[starts.len() - 1] + gap.ns() as f64);
        }
        let mut packets: VecDeque<(usize, usize, u8, f64)> = VecDeque::new();
        for (number, (train, start)) in schedule.trains.iter().zip(&starts).enumerate() {
            for position in 0..train.packets() {
                let hidden = position > 0 && position + 1 < train.packets();
                let hops = if hidden { train.hops } else { u8::MAX };
                packets.push_back((number, position, hops, start + 4_000.0 * position as f64));
            }
        }
        let mut records: Vec<TrainRecord> = Vec::new();
        for (train, start) in schedule.trains.iter().zip(&starts) {
            let last = start + 4_000.0 * (train.packets() - 1) as f64;
            let sent = [*start, last].map(|ns| Instant::from_ns(1_000_000_000 + ns as u64));
            records.push(TrainRecord { train: *train, sent, received: [None; 2], hidden_seen: 0 });
        }
        let mut replies = Vec::new();
        for link in 0..self.packet_ns.len() {
            for _ in 0..packets.len() {
                let Some((train, position, hops, at)) = packets.pop_front() else { break };
                let left = self.cross_link(link, at, size);
                if usize::from(hops) == link + 1 && link + 1 < self.packet_ns.len() {
                    let from = Ipv4Addr::new(10, self.network, 0, hops).into();
                    replies.extend(self.answers.then_some((hops, from)));
                } else if self.uniform() >= self.loss / self.packet_ns.len() as f64 {
                    packets.push_back((train, position, hops, left));
                    if link == 0 && self.twice > 0.0 && self.uniform() < self.twice {
                        let left = self.cross_link(link, left, size);
                        packets.push_back((train, position, hops, left));
                    }
                }
            }
        }
        let mut duplicates = 0;
        for (train, position, hops, at) in packets {
            let at = if self.jitter > 0.0 { at + self.jitter * self.uniform() } else { at };
            let record = &mut records[train];
            let time = Instant::from_ns(9_000_000_000 + at as u64);
            match &mut record.received[usize::from(position > 0)] {
                _ if hops != u8::MAX => {
                    record.hidden_seen = (record.hidden_seen + 1).min(record.train.hidden);
                }
                received @ None => *received = Some(time),
                Some(_) => duplicates += 1,
            }
        }
        self.now = starts[starts.len() - 1] + 100e6;
        (records, replies, duplicates)
    }

    /// Runs a measurement to its end; `disturb` may change the path before each stream.
    fn measure(&mut self, config: Config, mut disturb: impl FnMut(&mut Path, Phase)) -> (Locator, Answer) {
        let start = Instant::ZERO;
        let mut locator = Locator::new(config, start);
        for _ in 0..500 {
            let now = start + Duration::from_ns(self.now as i64);
            match locator.next_step(now) {
                Step::Done => {
                    let answer = locator.answer();
                    assert_eq!(answer.bytes.get(), self.sent);
                    return (locator, answer);
                }
                Step::Send { schedule, .. } => {
                    disturb(self, locator.phase());
                    let (trains, replies, duplicates) = self.send(&schedule);
                    locator.observe_duplicates(duplicates);
                    locator.observe(&trains, &replies, None);
                }
            }
        }
        panic!("the measurement does not end");
    }

    fn answer(&mut self, config: Config) -> Answer {
        self.measure(config, |_, _| {}).1
    }
}

fn capacity(answer: &Answer) -> f64 {
    answer.capacity.expect("a capacity").rate.mbps()
}

#[test]
fn the_narrow_link_of_a_loaded_path_is_found_within_3_mb_and_30_s() {
    for seed in 1..=5 {
        let mut path = Path::new(&REFERENCE, 0.2);
        path.random = Pcg64Mcg::seed_from_u64(seed);
        let answer = path.answer(Config { seed, ..config() });
        assert_eq!(answer.narrow.as_ref().map(|location| location.hop), Ok(5), "seed {seed}");
        assert!((capacity(&answer) - 30.0).abs() < 0.3, "seed {seed}: {}", capacity(&answer));
        assert!(answer.bytes <= config().budget && path.now < 30e9);
    }
}

#[test]
fn no_budget_is_exceeded() {
    for kb in (500..2_500).step_by(20) {
        let budget = Bytes::new(kb * 1_000);
        let mut path = Path::new(&REFERENCE, 0.4);
        path.random = Pcg64Mcg::seed_from_u64(kb);
        let bytes = path.answer(Config { seed: kb, budget, ..config() }).bytes;
        assert!(bytes <= budget, "{bytes} of {budget}");
    }
}

#[test]
fn the_narrow_link_is_found_at_every_hop_of_an_idle_path() {
    for hop in 1..=7u32 {
        let mut links = [40.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0];
        links[hop as usize - 1] = 30.0;
        let answer = Path::new(&links, 0.0).answer(config());
        assert_eq!(answer.narrow.map(|location| location.hop), Ok(hop));
    }
}

#[test]
fn a_path_of_one_link_has_its_narrow_link_there() {
    let answer = Path::new(&[100.0], 0.0).answer(config());
    assert_eq!((answer.nodes.len(), answer.narrow.map(|location| location.hop)), (1, Ok(1)));
}

#[test]
fn nodes_are_known_by_their_replies_and_counted_without_them() {
    let mut path = Path::new(&REFERENCE, 0.0);
    let nodes = path.answer(config()).nodes;
    assert_eq!(nodes.iter().map(|node| node.hop).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    let expected: Vec<IpAddr> = vec![Ipv4Addr::new(10, 0, 0, 3).into()];
    assert_eq!(nodes[2].addresses, expected);
    let mut path = Path::new(&REFERENCE, 0.0);
    path.answers = false;
    let answer = path.answer(config());
    assert!(answer.nodes.iter().all(|node| node.addresses.is_empty()));
    assert_eq!(answer.narrow.map(|location| location.hop), Ok(5));
}

#[test]
fn capacities_before_the_narrow_link_are_measured_when_asked_for() {
    let budget = Bytes::new(500_000_000);
    let config = Config { all: true, budget, time: Duration::from_ms(900_000), ..config() };
    let answer = Path::new(&REFERENCE, 0.0).answer(config);
    let set: Vec<(u32, f64)> =
        answer.slcs.iter().map(|member| (member.hop, member.capacity.mbps().round())).collect();
    assert_eq!(set, [(5, 30.0), (3, 40.0), (1, 50.0)]);
}

#[test]
fn a_few_random_losses_do_no_harm_and_many_are_refused() {
    let mut path = Path::new(&REFERENCE, 0.0);
    path.loss = 0.02;
    let answer = path.answer(config());
    assert_eq!(answer.narrow.map(|location| location.hop), Ok(5));
    assert!(answer.dropped.lost > 0);
    path = Path::new(&REFERENCE, 0.0);
    let lossy = path.measure(config(), |path, phase| {
        path.loss = if phase == Phase::Survey { 0.0 } else { 0.7 };
    });
    assert!(matches!(lossy.1.narrow, Err(Refused::Lost { .. })), "{:?}", lossy.1.narrow);
}

#[test]
fn a_path_that_becomes_longer_or_shorter_is_refused() {
    let longer = |path: &mut Path, phase| {
        if phase == Phase::Recheck && path.idle.len() == 7 {
            path.packet_ns.push(1e5);
            path.loads.push(0.0);
            path.idle.push(0.0);
            path.cross.push(path.now);
        }
    };
    let answer = Path::new(&REFERENCE, 0.0).measure(config(), longer).1;
    assert_eq!(answer.narrow, Err(Refused::PathChanged { before: 7, after: 8 }));
    let shorter = |path: &mut Path, phase| {
        if phase == Phase::Trains(5) {
            path.packet_ns.truncate(5);
        }
    };
    let answer = Path::new(&REFERENCE, 0.0).measure(config(), shorter).1;
    assert_eq!(answer.narrow, Err(Refused::HiddenArrived { hop: 5, arrived: true }));
}

#[test]
fn firewalls_against_small_ttls_are_named() {
    let mut locator = Locator::new(config(), Instant::ZERO);
    for _ in 0..2 {
        let Step::Send { schedule, replies } = locator.next_step(Instant::ZERO) else { panic!("no survey") };
        assert!(replies);
        let mut path = Path::new(&[10.0; 40], 0.0);
        let (trains, replies, _) = path.send(&schedule);
        locator.observe(&trains, &replies, None);
    }
    assert_eq!(locator.next_step(Instant::ZERO), Step::Done);
    assert_eq!(locator.answer().narrow, Err(Refused::NoneArrived));
}

#[test]
fn a_receiver_that_merges_packets_is_named() {
    let mut path = Path::new(&[100.0, 50.0], 0.0);
    let mut locator = Locator::new(config(), Instant::ZERO);
    while let Step::Send { schedule, .. } = locator.next_step(Instant::from_ns(path.now as u64)) {
        let (mut trains, replies, _) = path.send(&schedule);
        for train in &mut trains {
            // Both are read together, 1 us apart.
            train.received[0] = train.received[1].map(|last| last - Duration::from_us(1));
        }
        locator.observe(&trains, &replies, None);
    }
    assert!(matches!(locator.answer().narrow, Err(Refused::Grouped { .. })));
}

#[test]
fn too_small_a_budget_is_named() {
    for kb in [20, 400, 1000] {
        let budget = Bytes::new(kb * 1000);
        let answer = Path::new(&REFERENCE, 0.2).answer(Config { budget, ..config() });
        assert!(answer.bytes <= budget.max(Bytes::new(25_000)), "{}", answer.bytes);
        match answer.narrow {
            Err(Refused::Capacity(_) | Refused::Spent(..) | Refused::Unlocated(_)) => assert!(kb < 2000),
            other => assert!(kb >= 1000, "{kb} kB: {other:?}"),
        }
    }
}

#[test]
fn streams_that_the_sender_cannot_keep_end_the_measurement() {
    let mut path = Path::new(&REFERENCE, 0.0);
    let mut locator = Locator::new(config(), Instant::ZERO);
    let mut streams = 0;
    while let Step::Send { schedule, .. } = locator.next_step(Instant::ZERO) {
        let (trains, replies, _) = path.send(&schedule);
        locator.observe(&trains, &replies, Some(Refusal::ClockStep));
        streams += 1;
    }
    assert_eq!(locator.answer().narrow, Err(Refused::Stream(Refusal::ClockStep)));
    assert!((5..=13).contains(&streams), "a survey and at most twelve failures in a row: {streams}");
}

#[test]
fn a_busy_machine_that_spoils_every_other_stream_still_finds_the_narrow_link() {
    let mut path = Path::new(&REFERENCE, 0.0);
    let (budget, time) = (Bytes::new(9_000_000), Duration::from_ms(90_000));
    let mut locator = Locator::new(Config { budget, time, ..config() }, Instant::ZERO);
    let mut spoiled = 0;
    for stream in 0.. {
        let Step::Send { schedule, .. } = locator.next_step(Instant::from_ns(path.now as u64)) else { break };
        let (trains, replies, _) = path.send(&schedule);
        let refusal = (stream % 2 == 1).then_some(Refusal::SenderGaps);
        spoiled += usize::from(refusal.is_some());
        locator.observe(&trains, &replies, refusal);
    }
    let answer = locator.answer();
    assert_eq!(answer.narrow.map(|location| location.hop), Ok(5));
    assert!(spoiled > 4, "{spoiled}");
}

#[test]
fn a_machine_that_spoils_most_streams_is_blamed_and_not_the_budget() {
    let mut path = Path::new(&REFERENCE, 0.2);
    let budget = Bytes::new(500_000);
    let mut locator = Locator::new(Config { budget, ..config() }, Instant::ZERO);
    for stream in 0.. {
        let Step::Send { schedule, .. } = locator.next_step(Instant::from_ns(path.now as u64)) else { break };
        let (trains, replies, _) = path.send(&schedule);
        locator.observe(&trains, &replies, (stream % 3 > 0).then_some(Refusal::SenderGaps));
    }
    assert_eq!(locator.answer().narrow, Err(Refused::Stream(Refusal::SenderGaps)));
    assert!(locator.answer().bytes <= budget);
}

#[test]
fn a_sender_that_was_interrupted_often_is_the_cause_of_too_few_pairs() {
    let mut locator = Locator::new(config(), Instant::ZERO);
    (locator.late, locator.trains) = (24, 100);
    let spent = Refused::Spent("the byte budget", "--budget");
    assert_eq!(locator.cause(spent.clone()), spent);
    locator.late = 25;
    assert_eq!(locator.cause(spent), Refused::Interrupted { late: 25, sent: 100 });
    let lost = Refused::Lost { lost: 50, sent: 100 };
    assert_eq!(locator.cause(lost.clone()), lost);
}

#[test]
fn loads_that_leave_unevenly_are_blamed_and_not_the_budget() {
    let mut path = busy();
    let mut locator = Locator::new(tight_config(), Instant::ZERO);
    let mut steps = 0;
    while let Step::Send { schedule, .. } = locator.next_step(Instant::from_ns(path.now as u64)) {
        let (mut trains, replies, _) = path.send(&schedule);
        if locator.phase() == Phase::Tight {
            steps += 1;
            let start = trains[0].sent[0];
            for train in trains.iter_mut().filter(|_| steps % 4 > 0) {
                train.sent = train.sent.map(|sent| start + (sent - start).scale(1.3));
            }
        }
        locator.observe(&trains, &replies, None);
    }
    assert_eq!(locator.answer().tight, Some(Err(Refused::LoadsUnusable)));
    assert!(steps > 4, "it persists: {steps}");
}

/// Also where its capacity is unclear, as that of pairs over two paths may be.
#[test]
fn a_path_that_changes_while_its_capacity_is_unclear_is_said_to_have_changed() {
    let moved = |path: &mut Path, phase| path.network |= u8::from(phase == Phase::Pairs);
    let [same, changed] = [false, true].map(|changes| {
        let disturb = |path: &mut Path, phase| {
            if changes {
                moved(path, phase)
            }
        };
        Path::new(&REFERENCE, 0.7).measure(config(), disturb).1.narrow
    });
    assert!(matches!(same, Err(Refused::CapacityUnclear(_))), "{same:?}");
    assert!(matches!(changed, Err(Refused::NodeChanged { hop: 1, .. })), "{changed:?}");
}

#[test]
fn a_path_of_as_many_hops_through_other_routers_is_refused() {
    let moved = |path: &mut Path, phase| path.network = u8::from(phase == Phase::Recheck);
    let answer = Path::new(&REFERENCE, 0.0).measure(config(), moved).1;
    let [before, after] = [0, 1].map(|network| Ipv4Addr::new(10, network, 0, 1).into());
    assert_eq!(answer.narrow, Err(Refused::NodeChanged { hop: 1, before, after }));
}

#[test]
fn a_few_copies_of_packets_do_no_harm_and_many_are_refused() {
    let mut path = Path::new(&REFERENCE, 0.0);
    path.twice = 0.05;
    let answer = path.answer(config());
    assert_eq!(answer.narrow.map(|location| location.hop), Ok(5));
    assert!(answer.duplicates > 20, "{}", answer.duplicates);
    let mut path = Path::new(&REFERENCE, 0.0);
    path.twice = 0.6;
    let answer = path.answer(config());
    assert!(matches!(answer.narrow, Err(Refused::Duplicated { .. })), "{:?}", answer.narrow);
}

#[test]
fn pairs_in_the_wrong_order_are_refused_before_many_are_sent() {
    let mut path = Path::new(&REFERENCE, 0.0);
    path.jitter = 2e6;
    let answer = path.answer(config());
    assert!(matches!(answer.narrow, Err(Refused::Reordered { .. })), "{:?}", answer.narrow);
    assert!(answer.bytes < Bytes::new(200_000), "{}", answer.bytes);
}

/// Four links, of which the second is the narrow one and the third has the least to spare: 10 Mb/s.
fn busy() -> Path {
    let mut path = Path::new(&[60.0, 20.0, 50.0, 60.0], 0.2);
    path.loads = vec![0.2, 0.0, 0.8, 0.2];
    path
}

fn tight_config() -> Config {
    let time = Duration::from_ms(60_000);
    Config { tight: true, budget: Bytes::new(12_000_000), time, ..config() }
}

#[test]
fn the_tight_link_is_found_where_it_is_not_the_narrow_one() {
    let located = (1..=5).filter_map(|seed| {
        let mut path = busy();
        path.random = Pcg64Mcg::seed_from_u64(seed);
        path.answer(Config { seed, ..tight_config() }).tight.expect("wanted").ok()
    });
    let located: Vec<Tight> = located.collect();
    assert!(located.len() >= 3, "{located:?}");
    for Tight { hop, rate, .. } in located {
        assert_eq!(hop, 3);
        assert!(rate > Rate::from_mbps(10.0) && rate < Rate::from_mbps(20.0), "{rate}");
    }
    assert_eq!(busy().answer(config()).tight, None, "not wanted");
}

#[test]
fn the_tight_link_of_an_idle_path_is_the_narrow_one() {
    let answer = Path::new(&REFERENCE, 0.0).answer(tight_config());
    let tight = answer.tight.expect("wanted").expect("located");
    assert_eq!((tight.hop, answer.narrow.map(|location| location.hop)), (5, Ok(5)));
    // The loads that overloaded it were up to half faster than the link.
    assert!(tight.rate <= answer.capacity.expect("measured").rate, "{tight:?}");
}

#[test]
fn no_budget_is_exceeded_for_the_tight_link() {
    for mb in (1..=12).step_by(2) {
        let budget = Bytes::new(mb * 1_000_000);
        let answer = busy().answer(Config { budget, ..tight_config() });
        assert!(answer.bytes <= budget, "{} of {budget}", answer.bytes);
    }
}

#[test]
fn a_path_that_changes_while_the_tight_link_is_sought_has_no_answer() {
    let shorter = |path: &mut Path, phase| {
        if phase == Phase::Tight {
            path.packet_ns.truncate(2);
        }
    };
    let answer = Path::new(&[30.0, 20.0, 50.0, 60.0], 0.0).measure(tight_config(), shorter).1;
    assert!(matches!(answer.tight, Some(Err(Refused::PathChanged { .. } | Refused::HiddenArrived { .. }))));
    assert_eq!(answer.tight.and_then(Result::err), answer.narrow.err());
}
