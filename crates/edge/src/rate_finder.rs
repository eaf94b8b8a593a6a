//! Finds the rate of a middlebox's link, and has connections share that.

use std::collections::HashMap;

use headway_arithmetic::flow::Key;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::usage::Usage;
use crate::{LinkRate, Load, MOST_CLASSES, Middlebox, Tracked};

/// How often it looks.
const EVERY: Duration = Duration::from_ms(1_000);

/// A [`LinkRate`] of what a middlebox sees.
#[derive(Debug, Default)]
pub struct RateFinder {
    link: LinkRate,
    at: Instant,
    connections: HashMap<Key, Connection>,
}

/// A connection at the last look.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// What each end had acknowledged.
    acknowledged: [u32; 2],
    /// What it used towards each side.
    usage: [Usage; 2],
}

impl RateFinder {
    /// Looks at the connections of a middlebox if a second has passed, and sets what they share. To be called with every packet.
    pub fn on_packet(&mut self, middlebox: &mut Middlebox, now: Instant) {
        let elapsed = now - self.at;
        if elapsed < EVERY {
            return;
        }
        self.at = now;
        let mut before = std::mem::take(&mut self.connections);
        let (mut loads, mut unused) = (Vec::new(), [[0.0; 2]; MOST_CLASSES]);
        let mut all: Vec<(&Key, &Tracked)> = middlebox.connections().collect();
        // In the order of their beginning, so that the same packets give the same rates to the last bit.
        all.sort_unstable_by_key(|(_, tracked)| tracked.number());
        for (key, tracked) in all {
            let flow = tracked.flow();
            let acknowledged = [0, 1].map(|end| flow.acknowledged(end));
            let mut usage = [Usage::default(); 2];
            if let Some(before) = before.remove(key) {
                usage = before.usage;
                let shares = middlebox.shares(flow.class);
                for (end, (now_at, then)) in acknowledged.into_iter().zip(before.acknowledged).enumerate() {
                    let bytes = now_at.wrapping_sub(then);
                    let rate = Rate::of(Bytes::new(bytes.into()), elapsed).unwrap_or(Rate::ZERO);
                    let side = usize::from(flow.end_on(0) != end);
                    let load = Load::new(flow, side, rate, now);
                    let left = usage[side].unused(load.asks(), shares[side]);
                    loads.push(load);
                    if let Some(unused) = unused.get_mut(flow.class as usize) {
                        unused[side] += left;
                    }
                }
            }
            self.connections.insert(*key, Connection { acknowledged, usage });
        }
        self.link.look(&loads);
        middlebox.allocator().set_unused(&unused);
        for side in 0..2 {
            middlebox.allocator().set_available(side, self.link.available(side));
        }
    }

    /// Returns how much memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.connections.capacity() * size_of::<(Key, Connection)>()
    }
}
