//! Processor sharing: how long flows that come and go would take if they always had equal parts of the link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{Rng, RngExt as _};

/// Flows that are drawn.
const FLOWS: usize = 100_000;
/// Bytes are counted in parts of this, because the heap needs integers.
const PART: f64 = 1024.0;

/// Returns the size of every flow in kB and the time in ms that its bytes take, if flows of all sizes bring
/// the same bytes and arrive at random. `load` is their share of the rate in bytes per ms, counting payload;
/// on the wire they have `overhead` times as many bytes.
pub(super) fn completions(
    sizes: &[u64],
    rate: f64,
    load: f64,
    overhead: f64,
    random: &mut impl Rng,
) -> Vec<(u64, f64)> {
    let weights: Vec<f64> = sizes.iter().map(|size| 1.0 / *size as f64).collect();
    let total: f64 = weights.iter().sum();
    let gap = sizes.len() as f64 * 1e3 / total / (load * rate);
    // What every flow that was there from the beginning would have had; a flow ends when that
    // has grown by its bytes.
    let (mut now, mut share) = (0.0, 0.0);
    let mut alive: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut flows: Vec<(u64, f64)> = Vec::with_capacity(FLOWS);
    while flows.len() < FLOWS || !alive.is_empty() {
        let next =
            if flows.len() < FLOWS { -gap * (1.0 - random.random::<f64>()).ln() } else { f64::INFINITY };
        let arrival = now + next;
        while let Some(Reverse((end, flow))) = alive.peek().copied() {
            let left = (end as f64 / PART - share).max(0.0) * alive.len() as f64 / rate;
            if now + left > arrival {
                break;
            }
            (now, share) = (now + left, end as f64 / PART);
            flows[flow].1 = now - flows[flow].1;
            alive.pop();
        }
        if flows.len() < FLOWS {
            if !alive.is_empty() {
                share += (arrival - now) * rate / alive.len() as f64;
            }
            now = arrival;
            let mut at = random.random::<f64>() * total;
            let passed = |weight: &&f64| {
                at -= **weight;
                at > 0.0
            };
            let size = sizes[weights.iter().take_while(passed).count().min(sizes.len() - 1)];
            let end = share + size as f64 * 1e3 * overhead;
            alive.push(Reverse(((end * PART) as u64, flows.len())));
            flows.push((size, now));
        }
    }
    flows
}

#[cfg(test)]
mod tests {
    use headway_traffic::random;

    use super::*;

    /// The mean time under processor sharing is size / (rate (1 - load)), whatever the
    /// sizes (Kleinrock 1976).
    #[test]
    fn mean_times_are_those_of_the_formula() {
        let mut random = random::generator(1, "sharing", 0);
        let flows = completions(&[30, 1_000], 12_500.0, 0.5, 1.2, &mut random);
        for size in [30, 1_000] {
            let times: Vec<f64> = flows.iter().filter(|flow| flow.0 == size).map(|flow| flow.1).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let formula = size as f64 * 1e3 * 1.2 / 12_500.0 / (1.0 - 0.6);
            assert!((mean / formula - 1.0).abs() < 0.05, "{size}: {mean}, {formula}");
        }
    }
}
