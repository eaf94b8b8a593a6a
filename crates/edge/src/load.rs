//! What flows did in a second: what passed, and whether a queue stood.

use headway_arithmetic::flow::Flow;
use headway_units::{Bytes, Duration, Instant, Rate};

/// A queue stands if the least RTT of a second is longer by this than the RTT without a queue, and by [`STANDS_PART`] of that.
///
/// Range 5 to 30 ms: less is what ACKs wait for on many paths.
const STANDS: Duration = Duration::from_ms(10);
/// See [`STANDS`]. Range 0.1 to 0.5: windows too large by this part make such a queue.
pub(crate) const STANDS_PART: f64 = 0.25;
/// A queue that is always there though it is short: longer than what RTTs vary by in the time in which they were least, and than this part of
/// them. Range 1 to 5 ms, 0.03 to 0.15.
const WAITS: Duration = Duration::from_ms(3);
/// See [`WAITS`].
const WAITS_PART: f64 = 0.07;
/// A queue stands in one direction if the least one-way delay of a second is longer by this than that without a queue, and by
/// [`ONE_WAY_PART`] of the RTT.
///
/// Range 4 to 15 ms. It may be less than [`STANDS`]: ACKs that wait at their receiver, or in the other direction, are no part of it.
const ONE_WAY: Duration = Duration::from_ms(6);
/// See [`ONE_WAY`]. Range 0.1 to 0.25.
const ONE_WAY_PART: f64 = 0.15;
/// The queue of a direction is what this part of the data, which met least, has met at most. Range 0.1 to 0.5: bursts keep their order from RTT
/// to RTT, so that those behind wait all the time though the direction is not full; a new flow may not know the delay without a queue.
const FIRST: f64 = 0.25;

/// What was seen of a flow in the last second.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The side, 0 or 1, to which its data goes.
    pub side: usize,
    /// How fast.
    pub rate: Rate,
    /// How much faster it would be with a segment more in flight: windows are whole segments.
    pub step: Rate,
    /// The least RTT in that time, and the RTT without a queue, where they are known.
    pub rtts: Option<[Duration; 2]>,
    /// The queues towards each side that were there all that time, where timestamps tell them apart.
    pub queues: Option<[Duration; 2]>,
}

impl Load {
    /// Returns what a connection with a flow did at this rate towards a side in the second before `now`.
    pub(crate) fn new(flow: &Flow, side: usize, rate: Rate, now: Instant) -> Load {
        let rtt = flow.rtt().map(|rtt| Duration::from_ns(rtt as i64));
        let step = rtt.and_then(|rtt| Rate::of(Bytes::new(flow.segment().into()), rtt));
        // What the end on the side of the hosts sends is echoed from beyond the link.
        let host = flow.end_on(0);
        let queue = flow
            .standing(host, now.ns())
            .map(|rtts| Duration::from_ns((rtts.recent.saturating_sub(rtts.least)) as i64));
        let rtts = rtt.zip(queue).map(|(rtt, queue)| [rtt + queue, rtt]);
        let queues = flow.queues(now.ns()).map(|queues| queues.map(|queue| Duration::from_ns(queue as i64)));
        Load { side, rate, step: step.unwrap_or(Rate::ZERO), rtts, queues }
    }

    /// Returns what it would have with a segment more in flight. A flow that has not a segment in an RTT is not held by its window.
    fn whole(&self) -> Rate {
        self.rate + self.step.min(self.rate)
    }

    /// Returns what it would have without a queue and with whole segments: what its window lets it have, if that is what limits it.
    pub(crate) fn asks(&self) -> Rate {
        let rate = self.whole();
        self.rtts.map_or(rate, |[recent, least]| rate.scale(recent.ns() as f64 / least.ns().max(1) as f64))
    }
}

/// What passed towards a side in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) rate: Rate,
    /// The same with a segment more in flight of each flow.
    pub(crate) whole: Rate,
    /// What flows would have without the queue, too.
    pub(crate) asks: Rate,
    /// The queue that stood.
    pub(crate) queue: Option<Queue>,
    /// Whether there was a shorter one all the time.
    pub(crate) waits: bool,
}

/// A queue that packets met all the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) queue: Duration,
    /// The RTT without it.
    pub(crate) least: Duration,
}

impl Passed {
    /// Sums up what flows did towards a side.
    pub(crate) fn new(loads: &[Load], side: usize) -> Passed {
        let loads = || loads.iter().filter(|load| load.side == side && load.rate > Rate::ZERO);
        let sum = |of: fn(&Load) -> Rate| Rate::from_bps(loads().map(|load| of(load).bps()).sum());
        let queue = met(loads()).map(|[queue, least]| Queue { queue, least });
        Passed {
            rate: sum(|load| load.rate),
            whole: sum(Load::whole),
            asks: sum(Load::asks),
            queue: queue.filter(Queue::stands),
            waits: queue.is_some_and(|queue| queue.waits()),
        }
    }
}

impl Queue {
    /// Returns whether it stands in both directions together.
    fn stands(&self) -> bool {
        self.queue > STANDS.max(self.least.scale(STANDS_PART))
    }

    /// Returns whether it stands in one direction.
    pub(crate) fn stands_one_way(&self) -> bool {
        self.queue > ONE_WAY.max(self.least.scale(ONE_WAY_PART))
    }

    /// Returns whether packets waited all the time, though less.
    pub(crate) fn waits(&self) -> bool {
        self.queue > WAITS.max(self.least.scale(WAITS_PART))
    }

    /// Returns it as a part of the RTT without it.
    pub(crate) fn part(&self) -> f64 {
        self.queue.ns() as f64 / self.least.ns().max(1) as f64
    }
}

/// Returns the queue that half of the data has met all the time, with the RTT without it: a flow whose own server is slow makes none here.
fn met<'a>(loads: impl Iterator<Item = &'a Load>) -> Option<[Duration; 2]> {
    let met = loads.filter_map(|load| Some((load.rtts?, load.rate)));
    least(0.5, met.map(|([recent, least], rate)| ([recent - least, least], rate)))
}

/// Returns the queue towards each side, by the one-way delays of flows in both directions; none where those of most data do not tell.
///
/// Where all data goes to one side and only the other one has a queue, the two are exchanged: ACKs make it, or nothing here does.
pub(crate) fn queues(loads: &[Load]) -> Option<[Queue; 2]> {
    let [_, without] = met(loads.iter())?;
    let all: u64 = loads.iter().map(|load| load.rate.bps()).sum();
    let told: Vec<&Load> = loads.iter().filter(|load| load.queues.is_some()).collect();
    if 2 * told.iter().map(|load| load.rate.bps()).sum::<u64>() <= all {
        return None;
    }
    let queue = |side: usize| {
        let queues = told.iter().filter_map(|load| Some((load.queues?[side], load.rate)));
        Some(Queue { queue: least(FIRST, queues)?, least: without })
    };
    let queues = [queue(0)?, queue(1)?];
    let has_data = |side| loads.iter().any(|load| load.side == side && load.rate > Rate::ZERO);
    let is_of_acks = |side: usize| has_data(side) && !has_data(1 - side) && !queues[side].stands_one_way();
    Some(if is_of_acks(0) || is_of_acks(1) { [queues[1], queues[0]] } else { queues })
}

/// Returns the least of what flows have met that this part of the data has met no more than.
fn least<T: Ord>(part: f64, met: impl Iterator<Item = (T, Rate)>) -> Option<T> {
    let mut met: Vec<(T, Rate)> = met.filter(|(_, rate)| *rate > Rate::ZERO).collect();
    met.sort_unstable();
    let all: u64 = met.iter().map(|(_, rate)| rate.bps()).sum();
    let mut sum = 0;
    let found = met.into_iter().find(|(_, rate)| {
        sum += rate.bps();
        sum as f64 >= part * all as f64
    });
    found.map(|(met, _)| met)
}
