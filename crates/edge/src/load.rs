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
        Load { side, rate, step: step.unwrap_or(Rate::ZERO), rtts }
    }

    /// Returns what it would have without a queue and with whole segments: what its window lets it have, if that is what limits it.
    pub(crate) fn asks(&self) -> Rate {
        // A flow that has not a segment in an RTT is not held by its window.
        let rate = self.rate + self.step.min(self.rate);
        self.rtts.map_or(rate, |[recent, least]| rate.scale(recent.ns() as f64 / least.ns().max(1) as f64))
    }
}

/// What passed towards a side in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) rate: Rate,
    /// What flows would have without it.
    pub(crate) asks: Rate,
    /// The queue that stood, and the RTT without it.
    pub(crate) queue: Option<[Duration; 2]>,
    /// Whether there was a shorter one all the time.
    pub(crate) waits: bool,
}

impl Passed {
    /// Sums up what flows did towards a side.
    pub(crate) fn new(loads: &[Load], side: usize) -> Passed {
        let loads = || loads.iter().filter(|load| load.side == side && load.rate > Rate::ZERO);
        let sum = |of: fn(&Load) -> Rate| Rate::from_bps(loads().map(|load| of(load).bps()).sum());
        let met = met(loads());
        let exceeds =
            |limit: Duration, part| met.filter(|[queue, least]| *queue > limit.max(least.scale(part)));
        Passed {
            rate: sum(|load| load.rate),
            asks: sum(Load::asks),
            queue: exceeds(STANDS, STANDS_PART),
            waits: exceeds(WAITS, WAITS_PART).is_some(),
        }
    }
}

/// Returns the queue that half of the data has met all the time, with the RTT without it: a flow whose own server is slow makes none here.
fn met<'a>(loads: impl Iterator<Item = &'a Load>) -> Option<[Duration; 2]> {
    let mut met: Vec<(Duration, Duration, u64)> = loads
        .filter_map(|load| {
            let [recent, least] = load.rtts?;
            Some((recent - least, least, load.rate.bps()))
        })
        .collect();
    met.sort_unstable();
    let all: u64 = met.iter().map(|(.., rate)| rate).sum();
    let mut sum = 0;
    let (queue, least, _) = met.into_iter().find(|(.., rate)| {
        sum += rate;
        2 * sum >= all
    })?;
    Some([queue, least])
}
