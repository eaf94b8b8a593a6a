//! What a connection of each class may have (wan 2.2).

use headway_arithmetic::rwm::SHARE_BITS;
use headway_units::{PerSide, Rate, Side};

use crate::{Class, Policy, Rates};

/// Bits per second in a byte per ns.
const BYTE_PER_NS: f64 = 8e9;
/// Most values that the literal algorithm keeps for a class. There is one for each number of
/// connections at most, unless the link's rate changes; then the oldest connections may lose theirs,
/// and get the next larger one.
const MOST_LEAST: usize = 65_536;

/// Returns a share as [`Allocator::shares`] has it; none if it is any.
pub(crate) fn share_rate(share: u64) -> Option<Rate> {
    (share > 0).then(|| Rate::from_bps_f64(share as f64 * BYTE_PER_NS / (1_u64 << SHARE_BITS) as f64))
}

/// Which classes an event gave other shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// None.
    Nothing,
    /// This one.
    Class(u32),
    /// Any.
    All,
}

/// When a connection began: with the literal algorithm, what it may have is the least since then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// Returns how many connections had begun with this one.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The link and the connections on it, by class.
///
/// Each class has a fixed share of the link's rate, which its connections share equally. An event costs the
/// same whatever their number. Shares are in bytes per ns with [`SHARE_BITS`], as
/// [`headway_arithmetic::rwm::bytes`] takes them. They differ for the two sides of the middlebox: a window
/// that arrives from one side limits what is sent towards it.
#[derive(Clone, Debug)]
pub struct Allocator {
    delta: f64,
    borrow_idle: bool,
    literal: bool,
    /// Rate of the link towards each side.
    capacity: PerSide<Rate>,
    rates: Rates,
    classes: Vec<ClassState>,
    /// How many connections have begun.
    begun: u64,
}

#[derive(Clone, Debug, Default)]
struct ClassState {
    share: f64,
    /// Whether its connections may have any.
    priority: bool,
    ceiling: Option<Rate>,
    live: u32,
    /// How many of them do not use their shares towards each side.
    unused: PerSide<f64>,
    /// For each side, what a connection may have; 0 for any, without one.
    current: PerSide<u64>,
    /// With the literal algorithm, for each side, the least that was computed since a connection began:
    /// numbers of connections whose beginning had it computed, and what was, both growing.
    least: PerSide<Vec<(u64, u64)>>,
}

impl Allocator {
    /// Creates an allocator for a link with these rates towards the two sides, without connections.
    pub fn new(policy: &Policy, capacity: impl Into<PerSide<Rate>>) -> Allocator {
        let class = |class: &Class| ClassState {
            share: class.share,
            priority: class.priority,
            ceiling: class.ceiling,
            ..ClassState::default()
        };
        Allocator {
            delta: policy.delta,
            // Algorithm 1 does not lend.
            borrow_idle: policy.borrow_idle && !policy.literal,
            literal: policy.literal,
            capacity: capacity.into(),
            rates: Rates::default(),
            classes: policy.class.iter().map(class).collect(),
            begun: 0,
        }
    }

    /// A connection of a class begins.
    pub fn begin(&mut self, class: u32) -> (Ticket, Changed) {
        self.begun += 1;
        let ticket = Ticket(self.begun);
        let Some(state) = self.classes.get_mut(class as usize) else { return (ticket, Changed::Nothing) };
        state.live = state.live.saturating_add(1);
        let was_idle = state.live == 1;
        if self.literal {
            self.compute_all();
            self.note_least();
            return (ticket, Changed::All);
        }
        (ticket, self.update(class as usize, was_idle))
    }

    /// A connection of a class ends.
    pub fn end(&mut self, class: u32) -> Changed {
        let Some(state) = self.classes.get_mut(class as usize).filter(|state| state.live > 0) else {
            return Changed::Nothing;
        };
        state.live -= 1;
        let is_idle = state.live == 0;
        if self.literal {
            if is_idle {
                state.least = PerSide::default();
            }
            return Changed::Nothing;
        }
        self.update(class as usize, is_idle)
    }

    /// A connection becomes one of another class.
    pub fn change_class(&mut self, from: u32, to: u32) -> (Ticket, Changed) {
        let ended = self.end(from);
        let (ticket, begun) = self.begin(to);
        let both = match (ended, begun) {
            (Changed::Nothing, one) | (one, Changed::Nothing) => one,
            (a, b) if a == b => a,
            _ => Changed::All,
        };
        (ticket, both)
    }

    /// Sets the rate of the link towards a side, 0 or 1.
    pub fn set_capacity(&mut self, side: Side, rate: Rate) -> Changed {
        self.capacity[side] = rate;
        self.update_all()
    }

    /// Sets what of the link towards a side, 0 or 1, is free.
    pub fn set_available(&mut self, side: Side, rate: Rate) {
        self.rates.available[side] = Some(rate);
        self.update_all();
    }

    /// Computes shares from these rates.
    pub fn follow(&mut self, rates: Rates) {
        self.rates = rates;
        self.update_all();
    }

    /// Gives connections of a class what one of it leaves of its share, or less: each counts by the part that
    /// it uses, and all together as one at least.
    pub(crate) fn add_unused(&mut self, class: u32, unused: PerSide<f64>) -> Changed {
        let Some(state) = self.classes.get_mut(class as usize) else { return Changed::Nothing };
        state.unused = PerSide::of(|side| state.unused[side] + unused[side]);
        if self.literal { Changed::Nothing } else { self.update(class as usize, false) }
    }

    /// Returns what a connection of a class may have towards each side: 0 for any.
    pub fn shares(&self, class: u32) -> PerSide<u64> {
        self.classes.get(class as usize).map_or(PerSide::default(), |state| state.current)
    }

    /// Returns what one that began with this ticket may have, which with the literal algorithm may be less.
    pub fn shares_since(&self, class: u32, ticket: Ticket) -> PerSide<u64> {
        let Some(state) = self.classes.get(class as usize).filter(|_| self.literal) else {
            return self.shares(class);
        };
        PerSide::of(|side| {
            let least = &state.least[side];
            let since = least.partition_point(|(number, _)| *number < ticket.0);
            least.get(since).map_or(0, |(_, least)| *least)
        })
    }

    /// Returns how many connections of a class there are.
    pub fn live(&self, class: u32) -> u32 {
        self.classes.get(class as usize).map_or(0, |state| state.live)
    }

    /// Computes a class, or all if others become larger or smaller because it has connections now
    /// or has none any more.
    fn update(&mut self, class: usize, turned: bool) -> Changed {
        if turned && self.borrow_idle {
            return self.update_all();
        }
        let computed = self.computed(class, self.lent());
        let before = std::mem::replace(&mut self.classes[class].current, computed);
        if computed == before { Changed::Nothing } else { Changed::Class(class as u32) }
    }

    fn update_all(&mut self) -> Changed {
        // Algorithm 1 computes when a connection begins.
        if self.literal {
            return Changed::Nothing;
        }
        self.compute_all();
        Changed::All
    }

    fn compute_all(&mut self) {
        let lent = self.lent();
        for class in 0..self.classes.len() {
            self.classes[class].current = self.computed(class, lent);
        }
    }

    /// Returns by how much the shares of classes with connections grow because others have none.
    fn lent(&self) -> f64 {
        if !self.borrow_idle {
            return 1.0;
        }
        let all: f64 = self.classes.iter().map(|state| state.share).sum();
        let used: f64 = self.classes.iter().filter(|state| state.live > 0).map(|state| state.share).sum();
        if used > 0.0 { all / used } else { 1.0 }
    }

    fn computed(&self, class: usize, lent: f64) -> PerSide<u64> {
        let state = &self.classes[class];
        if state.live == 0 || state.priority {
            return PerSide::default();
        }
        PerSide::of(|side| {
            let rate =
                self.rates.available[side].map_or(self.capacity[side], |free| free.min(self.capacity[side]));
            let class = self.delta * rate.bps_f64() * state.share * lent;
            let class = state.ceiling.map_or(class, |ceiling| class.min(ceiling.bps_f64()));
            let sharing = (f64::from(state.live) - state.unused[side]).max(1.0);
            let share = class * self.rates.factors[side] / sharing;
            // None at all would be no limit.
            ((share / BYTE_PER_NS * (1_u64 << SHARE_BITS) as f64).round() as u64).max(1)
        })
    }

    /// Notes what was just computed, which no connection that is there may exceed any more.
    fn note_least(&mut self) {
        for state in self.classes.iter_mut().filter(|state| state.live > 0) {
            for (side, least) in state.least.iter_mut() {
                let current = state.current[side];
                while least.last().is_some_and(|(_, value)| *value >= current) {
                    least.pop();
                }
                if least.len() == MOST_LEAST {
                    least.remove(0);
                }
                least.push((self.begun, current));
            }
        }
    }
}
