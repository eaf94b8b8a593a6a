//! Flows whose behaviour is known because it was made: the packets of 10 s.

use headway_edge::classify::{Behaviour, Features, LimitedBy, Meter};
use headway_traffic::Traffic;
use headway_traffic::random::{Pcg64Mcg, generator};
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::RngExt as _;

/// How long each flow is watched, in ns.
const WATCHED: f64 = 10e9;
/// Payload of a full packet with its headers, in bytes.
const FULL: f64 = 1500.0;

/// A flow that was made.
pub(crate) struct Made {
    pub(crate) kind: &'static str,
    pub(crate) behaviour: Behaviour,
    pub(crate) features: Features,
}

/// Packets: times in ns, and bytes.
type Packets = Vec<(f64, f64)>;

/// Random numbers of one flow.
struct Dice(Pcg64Mcg);

impl Dice {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// As many in each octave.
    fn over(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.0.random::<f64>()).ln()
    }

    fn one_in(&mut self, number: u32) -> bool {
        self.0.random_range(0..number) == 0
    }
}

/// Makes flow `id` of a seed: as many of each behaviour.
pub(crate) fn made(seed: u64, id: u64) -> Made {
    let mut dice = Dice(generator(seed, "made", id));
    let (kind, behaviour, packets, limited_by) = match id % 9 {
        0 => ("call", Behaviour::Cbr, call(&mut dice), LimitedBy::Unknown),
        1 => ("video call", Behaviour::Cbr, video(&mut dice), LimitedBy::Unknown),
        2 => stream(&mut dice, seed, id),
        3 | 4 => ("pages", Behaviour::Interactive, pages(&mut dice, seed, id), LimitedBy::Unknown),
        5 => ("shell", Behaviour::Interactive, shell(&mut dice), LimitedBy::Application),
        number => {
            let (kind, limited_by) = [
                ("TCP held by the path", LimitedBy::Path),
                ("TCP held by its window", LimitedBy::ReceiveWindow),
                ("QUIC", LimitedBy::Unknown),
            ][number as usize - 6];
            (kind, Behaviour::Bulk, bulk(&mut dice), limited_by)
        }
    };
    let seen = watch(packets.clone(), limited_by);
    let answers = match kind {
        "QUIC" => acks(&mut dice, packets),
        "call" | "video call" | "stream in UDP" => feedback(&mut dice),
        _ => return Made { kind, behaviour, features: seen },
    };
    Made { kind, behaviour, features: seen.with_answers(&watch(answers, LimitedBy::Unknown)) }
}

/// ACKs of QUIC: for every second packet (RFC 9000 13.2.2), or as Chrome's, for every tenth; 25 ms after a
/// packet at the latest. IPv4 or IPv6, UDP, a short header, an ACK frame and a tag are 55 to 95 bytes.
fn acks(dice: &mut Dice, mut packets: Packets) -> Packets {
    packets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let every = if dice.one_in(2) { 2 } else { 10 };
    let (mut acks, mut due, mut waiting) = (Packets::new(), f64::MAX, 0);
    for (at, _) in packets {
        if due <= at {
            acks.push((due, dice.between(55.0, 95.0)));
            (due, waiting) = (f64::MAX, 0);
        }
        waiting += 1;
        due = due.min(at + 25e6);
        if waiting == every {
            acks.push((at, dice.between(55.0, 95.0)));
            (due, waiting) = (f64::MAX, 0);
        }
    }
    acks
}

/// What the receiver of a call or of video sends: reports on what arrived every 50 to 250 ms, as WebRTC's
/// are, and in half of them speech.
fn feedback(dice: &mut Dice) -> Packets {
    let every = dice.between(50e6, 250e6);
    let mut packets: Packets = (0..(WATCHED / every) as u64).map(|k| (every * k as f64, 80.0)).collect();
    if dice.one_in(2) {
        packets.extend(call(dice));
    }
    packets
}

fn watch(mut packets: Packets, limited_by: LimitedBy) -> Features {
    packets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let seen: Vec<_> = packets
        .iter()
        .take_while(|(at, _)| *at < WATCHED)
        .map(|(at, size)| (Instant::from_ns(*at as u64), Bytes::new(*size as u64)))
        .collect();
    let mut meter = Meter::new(seen[0].0, seen[0].1);
    seen[1..].iter().for_each(|(at, size)| meter.on_packet(*at, *size));
    meter.features(Instant::from_ns(WATCHED as u64), limited_by)
}

/// Speech: equal packets at equal gaps, which the network delays.
fn call(dice: &mut Dice) -> Packets {
    let (gap, size) = (dice.between(10e6, 60e6), dice.between(60.0, 300.0));
    let jitter = dice.between(0.0, 0.5);
    (0..(WATCHED / gap) as u64)
        .map(|number| (gap * (number as f64 + dice.between(0.0, jitter)), size))
        .collect()
}

/// Frames of sizes that differ, each in packets one after the other.
fn video(dice: &mut Dice) -> Packets {
    let (rate, per_second) = (dice.over(0.3e6, 6e6), dice.between(15.0, 60.0));
    let (mean, variation) = (rate / 8.0 / per_second, dice.between(0.1, 0.5));
    let mut packets = Packets::new();
    for number in 0..(WATCHED * per_second / 1e9) as u64 {
        let mut at = number as f64 * 1e9 / per_second + dice.between(0.0, 3e6);
        let mut left = mean * (1.0 + 3.0_f64.sqrt() * dice.between(-variation, variation)).max(0.1);
        while left > 0.0 {
            packets.push((at, left.min(1200.0)));
            (at, left) = (at + 0.2e6, left - 1200.0);
        }
    }
    packets
}

/// Full packets at a constant rate: UDP that may be video, or TCP from an encoder.
fn stream(dice: &mut Dice, seed: u64, id: u64) -> (&'static str, Behaviour, Packets, LimitedBy) {
    let is_tcp = dice.one_in(2);
    let rate = dice.over(0.5e6, if is_tcp { 25e6 } else { 8e6 });
    let mut source = Traffic::cbr(Rate::from_bps_f64(rate)).generator(seed, id);
    let mut packets = drawn(&mut source);
    packets.iter_mut().for_each(|(at, _)| *at += dice.exponential(2e6));
    let kind = if is_tcp { "stream in TCP" } else { "stream in UDP" };
    (kind, Behaviour::Cbr, packets, if is_tcp { LimitedBy::Application } else { LimitedBy::Unknown })
}

/// A browser, which fetches files and thinks.
fn pages(dice: &mut Dice, seed: u64, id: u64) -> Packets {
    let traffic = Traffic::Web {
        browsers: 1,
        think: Duration::from_secs_f64(dice.between(1.0, 5.0)),
        access: Rate::from_bps_f64(dice.over(2e6, 100e6)),
        file: Bytes::new(dice.over(20e3, 300e3) as u64),
        spread: 1.2,
        size: Bytes::new(FULL as u64),
    };
    // Those that fetch nothing in 10 s have no packets to judge.
    (0..)
        .map(|again| drawn(&mut traffic.generator(seed, id + 1_000_000 * again)))
        .find(|all| all.len() > 1)
        .unwrap()
}

fn drawn(source: &mut headway_traffic::Generator) -> Packets {
    std::iter::from_fn(|| source.next())
        .map(|packet| (packet.at.ns() as f64, packet.size.get() as f64))
        .take_while(|(at, _)| *at < WATCHED)
        .collect()
}

/// Keys that are pressed at changing gaps, and now and then a screen.
fn shell(dice: &mut Dice) -> Packets {
    let (gap, mut at) = (dice.between(100e6, 400e6), 0.0);
    let mut packets = Packets::new();
    while at < WATCHED {
        let screen = if dice.one_in(15) { dice.between(1.0, 4.0) as u32 } else { 0 };
        packets.push((at, dice.between(60.0, 200.0)));
        (0..screen).for_each(|number| packets.push((at + f64::from(number + 1) * 1e5, FULL)));
        at += dice.exponential(gap);
    }
    packets
}

/// A window that doubles, and then grows and is lowered by three tenths, behind a link with a
/// buffer and other traffic.
fn bulk(dice: &mut Dice) -> Packets {
    let (rtt, capacity) = (dice.over(10e6, 200e6), dice.over(2e6, 200e6));
    let packet = FULL * 8e9 / capacity;
    let most = (rtt / packet * dice.between(0.8, 2.0)).max(4.0);
    let others = dice.between(0.0, 0.5);
    let (mut window, mut slow_start) = (10.0_f64.min(most), true);
    let (mut packets, mut round, mut free) = (Packets::new(), 0.0_f64, 0.0_f64);
    while round < WATCHED {
        for number in 0..window as u64 {
            let sent = round + rtt * number as f64 / window;
            free = free.max(sent) + packet * (1.0 - others) + dice.exponential(packet * others);
            packets.push((free, FULL));
        }
        round = (round + rtt).max(free);
        window = if slow_start { 2.0 * window } else { window + most / 20.0 };
        if window > most {
            (window, slow_start) = (0.7 * most, false);
        }
    }
    packets
}
