//! What flows did between two looks: what passed towards a side, and how long it was under way.

use headway_units::{Bytes, Duration, PerSide, Rate, Side};

/// The queue of a direction is what this part of the data, which met least, has met at most. Range 0.1 to
/// 0.5: a flow that waits elsewhere, or whose server is slow, makes none here, and a new one may not know its
/// RTT without a queue.
const FIRST: f64 = 0.25;

/// By how much longer the queue of a flow may be, in s: bursts keep their order for some
/// RTTs. Range 5 to 20 ms.
const ELSEWHERE: f64 = 0.010;

/// With so many segments in flight, an RTT tells of a queue: with fewer, receivers wait for another one
/// before they acknowledge. Range 5 to 20.
const SEGMENTS: f64 = 10.0;

/// What was seen of a flow since the last look.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The side to which its data goes.
    pub side: Side,
    /// How fast.
    pub rate: Rate,
    /// The largest segment: windows are whole ones.
    pub segment: Bytes,
    /// Its mean RTT in that time and the RTT without a queue, where they are known.
    pub rtts: Option<[Duration; 2]>,
    /// By how much the RTT from which its window is computed is longer than that.
    pub longer: Duration,
    /// The mean queues towards each side, where timestamps tell them apart.
    pub queues: Option<PerSide<Duration>>,
}

/// What passed towards a side since the last look: means, in which each flow counts by its data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// How long that was, in s.
    pub(crate) time: f64,
    /// What passed, in bit/s.
    pub(crate) rate: f64,
    /// What would have passed without a queue and with whole segments: what windows let
    /// pass, if they limit it.
    pub(crate) asks: f64,
    /// The RTT in s; 0 where it is not known.
    pub(crate) rtt: f64,
    /// The RTT without a queue.
    pub(crate) least: f64,
    /// By how much the RTT from which windows are computed is longer than that.
    pub(crate) longer: f64,
    /// The queue that the data which met least has met, in s.
    pub(crate) queue: f64,
    /// Whether that is in this direction, and not perhaps in the other one.
    pub(crate) is_told: bool,
    /// The size of a segment, in bits.
    pub(crate) segment: f64,
    /// What a segment more in flight of each flow would let pass, in bit/s.
    pub(crate) step: f64,
}

impl Passed {
    /// Sums up what flows did towards a side in this time.
    pub(crate) fn new(loads: &[Load], side: Side, time: Duration) -> Passed {
        let (queue, is_told) = met(loads, side);
        let loads: Vec<&Load> =
            loads.iter().filter(|load| load.side == side && load.rate > Rate::ZERO).collect();
        let sum = |of: &dyn Fn(&Load) -> f64| loads.iter().map(|load| of(load)).sum::<f64>();
        let rate = sum(&|load| load.rate.bps_f64());
        let known = sum(&|load| load.rtts.map_or(0.0, |_| load.rate.bps_f64()));
        let mean = |of: fn(&Load, [Duration; 2]) -> Duration| {
            let weighted =
                sum(&|load| load.rtts.map_or(0.0, |rtts| load.rate.bps_f64() * of(load, rtts).secs_f64()));
            if known > 0.0 { weighted / known } else { 0.0 }
        };
        Passed {
            time: time.secs_f64(),
            rate,
            asks: sum(&Load::asks),
            rtt: mean(|_, [rtt, _]| rtt),
            least: mean(|_, [_, least]| least),
            longer: mean(|load, _| load.longer),
            queue,
            is_told,
            segment: sum(&|load| load.rate.bps_f64() * load.segment.get() as f64 * 8.0) / rate.max(1.0),
            step: sum(&Load::step),
        }
    }
}

impl Passed {
    /// Whether enough is in flight that an RTT tells of a queue.
    pub(crate) fn fills_rtt(&self) -> bool {
        self.rate * self.rtt > SEGMENTS * self.segment
    }
}

impl Load {
    /// Returns what it would have without a queue and with a segment more in flight. A flow that has not a
    /// segment in an RTT is not held by its window.
    pub(crate) fn asks(&self) -> f64 {
        let rate = self.rate.bps_f64();
        let Some([rtt, least]) = self.rtts else { return rate };
        rate * rtt.secs_f64() / least.secs_f64().max(1e-6) + self.step()
    }

    /// Returns the same if the queue that it met is longer than that of the link, in s, and so
    /// elsewhere for the rest.
    pub(crate) fn asks_here(&self, queue: f64) -> f64 {
        let Some([rtt, least]) = self.rtts else { return self.asks() };
        let met = self.queues.map_or((rtt - least).secs_f64(), |queues| queues[self.side].secs_f64());
        let elsewhere = (met - queue - ELSEWHERE).max(0.0);
        self.asks() * (1.0 - elsewhere / rtt.secs_f64().max(1e-6)).max(0.0)
    }

    /// Returns how much more it would have with a segment more in flight.
    fn step(&self) -> f64 {
        let least = self.rtts.map_or(f64::INFINITY, |[_, least]| least.secs_f64().max(1e-6));
        (self.segment.get() as f64 * 8.0 / least).min(self.rate.bps_f64())
    }
}

/// Returns the queue towards a side: what a part of the data, which met least, has met at most; and whether
/// timestamps tell in which direction it is. Flows whose timestamps do know it best, those that go there
/// before others; else it may be in either.
fn met(loads: &[Load], side: Side) -> (f64, bool) {
    let told = |load: &Load| load.queues.map(|queues| queues[side].secs_f64());
    let any = |load: &Load| load.rtts.map(|[rtt, least]| (rtt - least).secs_f64());
    let there = || loads.iter().filter(|load| load.side == side);
    let enough = |all: f64, (queue, sum): (f64, f64)| (2.0 * sum > all).then_some((queue, true));
    let all = there().map(|load| load.rate.bps_f64()).sum();
    enough(all, first(there().filter_map(|load| Some((told(load)?, load)))))
        .or_else(|| enough(0.0, first(loads.iter().filter_map(|load| Some((told(load)?, load))))))
        .unwrap_or_else(|| (first(there().filter_map(|load| Some((any(load)?, load)))).0, false))
}

/// Returns what the first part of the data has met, and how much data there is.
fn first<'a>(met: impl Iterator<Item = (f64, &'a Load)>) -> (f64, f64) {
    let mut met: Vec<(f64, f64)> = met.map(|(queue, load)| (queue, load.rate.bps_f64())).collect();
    met.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = met.iter().map(|(_, rate)| rate).sum::<f64>();
    let mut sum = 0.0;
    let found = met.iter().find(|(_, rate)| {
        sum += rate;
        sum >= FIRST * all
    });
    (found.map_or(0.0, |(queue, _)| *queue), all)
}
