//! Has connections of a middlebox share its link by what they use of that, and finds the rate of the link if nobody told it.

use std::collections::HashMap;

use headway_arithmetic::flow::Key;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::monitor::{ACK, SEGMENTS_PER_ACK};
use crate::usage::Usage;
use crate::{LinkRate, Load, Middlebox, Tracked, Unused, Widening};

/// How often it looks.
const EVERY: Duration = Duration::from_ms(1_000);

/// What connections of a middlebox use, from second to second. Flows that are no connections are not seen.
#[derive(Debug)]
pub struct ByUse {
    /// The rates of the link, or what finds them.
    link: Link,
    widening: Widening,
    at: Instant,
    connections: HashMap<Key, Connection>,
}

#[derive(Debug)]
enum Link {
    Told([Rate; 2]),
    Found(Box<LinkRate>),
}

/// A connection at the last look.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// What each end had acknowledged.
    acknowledged: [u32; 2],
    /// What it used towards each side.
    usage: [Usage; 2],
}

/// What was seen of all connections since the last look.
#[derive(Default)]
struct Look {
    loads: Vec<Load>,
    unused: Unused,
    /// What ACKs take towards each side.
    acks: [Rate; 2],
}

impl ByUse {
    /// Creates it for a link with these rates towards the two sides.
    pub fn new(capacity: [Rate; 2]) -> ByUse {
        ByUse::of(Link::Told(capacity))
    }

    /// Creates it for a link whose rate is to be found.
    pub fn finding_the_rate() -> ByUse {
        ByUse::of(Link::Found(Box::default()))
    }

    fn of(link: Link) -> ByUse {
        ByUse { link, widening: Widening::default(), at: Instant::ZERO, connections: HashMap::new() }
    }

    /// Looks at the connections of a middlebox if a second has passed, and sets what they share. To be called with every packet.
    pub fn on_packet(&mut self, middlebox: &mut Middlebox, now: Instant) {
        let elapsed = now - self.at;
        if elapsed < EVERY {
            return;
        }
        self.at = now;
        let Look { loads, unused, acks } = self.see(middlebox, elapsed, now);
        middlebox.allocator().set_unused(&unused);
        let available = match &mut self.link {
            Link::Told(rates) => [0, 1].map(|side| Some(rates[side].saturating_sub(acks[side]))),
            Link::Found(link) => {
                link.look(&loads, acks);
                [0, 1].map(|side| link.available(side))
            }
        };
        if let Link::Told(_) = self.link {
            self.widening.look(&loads, available);
            middlebox.allocator().set_factors(self.widening.factors());
        }
        for (side, available) in available.into_iter().enumerate() {
            middlebox.allocator().set_available(side, available);
        }
    }

    fn see(&mut self, middlebox: &Middlebox, elapsed: Duration, now: Instant) -> Look {
        let mut before = std::mem::take(&mut self.connections);
        let mut look = Look::default();
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
                    let bytes = u64::from(now_at.wrapping_sub(then));
                    let rate_of = |bytes| Rate::of(Bytes::new(bytes), elapsed).unwrap_or(Rate::ZERO);
                    let side = usize::from(flow.end_on(0) != end);
                    let load = Load::new(flow, side, rate_of(bytes), now);
                    let left = usage[side].unused(load.asks(), shares[side]);
                    look.loads.push(load);
                    let acks = bytes / (SEGMENTS_PER_ACK * u64::from(flow.segment().max(1)));
                    look.acks[1 - side] = look.acks[1 - side] + rate_of(acks * ACK);
                    if let Some(unused) = look.unused.get_mut(flow.class as usize) {
                        unused[side] += left;
                    }
                }
            }
            self.connections.insert(*key, Connection { acknowledged, usage });
        }
        look
    }

    /// Returns how much memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.connections.capacity() * size_of::<(Key, Connection)>()
    }
}
