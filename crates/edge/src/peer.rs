//! An edge at the other end of the same link, with which this one shares it by one allotment.
//!
//! Both see the flows that pass both, and each may see others that the other one does not, for example of a
//! second network behind it. So each tells the other which flows share the link in each direction, as a set
//! of bits, and has of the link the part that its own flows are of all: a flow of both counts once, and
//! every flow gets as much as every other, whoever holds it. While nothing is heard, each has the whole
//! link, as without the other.

use headway_arithmetic::flow::Key;
use headway_units::{Duration, Instant, PerSide, Side};

use crate::Judged;
use crate::evaluate::{Facts, Input};

/// Bits of a set. Range 512 to 4096: two sets fit into a packet with room to spare, and of a thousand flows
/// the number is found with an error of 2 %.
const BITS: usize = 2_048;
/// Bytes of a set.
const SET: usize = BITS / 8;
/// Bytes of what one tells the other.
pub const TOLD: usize = 2 * SET;
/// What was heard holds for so long: two messages may be lost. Range 2 to 10 s.
const HOLDS: Duration = Duration::from_ms(3_500);
/// A flow that leaves more than this part of its share does not count: it would take what others could use.
/// Range 0.3 to 0.9.
const IDLE: f64 = 0.5;
/// The least part of the link: a set that is full says nothing of how many flows there are.
const LEAST: f64 = 0.01;

/// Flows, as a set that is the same for the same flows at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set([u8; SET]);

impl Default for Set {
    fn default() -> Set {
        Set([0; SET])
    }
}

impl Set {
    fn add(&mut self, key: &Key) {
        let bit = (hash(key) % BITS as u64) as usize;
        self.0[bit / 8] |= 1 << (bit % 8);
    }

    fn with(&self, other: &Set) -> Set {
        Set(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    fn within(&self, other: &Set) -> Set {
        Set(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Returns how many flows it has, of which some may share a bit (linear counting; Whang and others, "A
    /// linear-time probabilistic counting algorithm", 1990).
    fn flows(&self) -> f64 {
        let ones: u32 = self.0.iter().map(|byte| byte.count_ones()).sum();
        let empty = (BITS as u32 - ones).max(1);
        BITS as f64 * (BITS as f64 / f64::from(empty)).ln()
    }
}

/// Returns a number that is the same for a flow at both ends of a link (FNV-1a, and a final mix of its bits).
fn hash(key: &Key) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for end in [0, 1] {
        match key.address(end) {
            std::net::IpAddr::V4(address) => address.octets().into_iter().for_each(&mut add),
            std::net::IpAddr::V6(address) => address.octets().into_iter().for_each(&mut add),
        }
        key.port(end).to_be_bytes().into_iter().for_each(&mut add);
    }
    let mixed = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 33
}

/// The edge at the other end, and what this one tells it.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The flows of this edge that share.
    shares: PerSide<Set>,
    /// Those of them that use what they have.
    own: PerSide<Set>,
    /// What it has told last, and when: by the sides of this edge.
    theirs: Option<(Instant, PerSide<Set>)>,
}

impl Peer {
    /// Takes the flows of this edge, as they were judged.
    pub(crate) fn look(&mut self, judged: &[Judged]) {
        (self.shares, self.own) = Default::default();
        for one in judged.iter().filter(|one| one.shares()) {
            self.shares[one.main_side].add(&one.seen.key);
            if one.unused[one.main_side] <= IDLE {
                self.own[one.main_side].add(&one.seen.key);
            }
        }
    }

    /// Returns what the other edge is to be told, once a second.
    pub fn message(&self) -> [u8; TOLD] {
        let mut told = [0; TOLD];
        // What goes to the hosts here comes from the link there.
        told[..SET].copy_from_slice(&self.own[Side::Wan].0);
        told[SET..].copy_from_slice(&self.own[Side::Lan].0);
        told
    }

    /// Takes what the other edge has told, whose messages must have proved that they are its.
    pub fn hear(&mut self, now: Instant, told: &[u8; TOLD]) {
        let set = |at: usize| Set(std::array::from_fn(|byte| told[at + byte]));
        self.theirs = Some((now, PerSide([set(0), set(SET)])));
    }

    /// Whether it was heard of late.
    pub fn is_heard(&self, now: Instant) -> bool {
        self.theirs.is_some_and(|(at, _)| now - at <= HOLDS)
    }

    /// Returns the part of the link that the flows of this edge have together towards a side.
    fn part(&self, now: Instant, side: Side) -> f64 {
        let Some((_, theirs)) = self.theirs.filter(|_| self.is_heard(now)) else { return 1.0 };
        // One that the other edge holds to less than it would have here counts as well.
        let own = self.own[side].with(&self.shares[side].within(&theirs[side]));
        let all = own.with(&theirs[side]).flows();
        // Without flows of its own it has what one flow would have.
        if all > 0.0 { (own.flows().max(1.0) / all).clamp(LEAST, 1.0) } else { 1.0 }
    }
}

impl Input for Peer {
    fn tell(&mut self, now: Instant, facts: &mut Facts) {
        facts.part = PerSide::of(|side| self.part(now, side));
    }
}

#[cfg(test)]
mod tests {
    use headway_arithmetic::flow::Packet;

    use super::*;

    fn set(ports: impl IntoIterator<Item = u16>) -> Set {
        let mut set = Set::default();
        for port in ports {
            // Whichever end sends.
            let ends = [("10.0.0.1".parse().unwrap(), port), ("10.0.1.1".parse().unwrap(), 443)];
            let [one, other] = if port % 2 == 0 { ends } else { [ends[1], ends[0]] };
            set.add(Packet::between(one, other).key());
        }
        set
    }

    fn pair(own: Set, theirs: Set) -> [f64; 2] {
        let now = Instant::from_ns(1_000_000_000);
        let mut here = Peer { own: PerSide([own, Set::default()]), ..Peer::default() };
        let mut there = Peer { own: PerSide([Set::default(), theirs]), ..Peer::default() };
        there.hear(now, &here.message());
        here.hear(now, &there.message());
        [here.part(now, Side::Lan), there.part(now, Side::Wan)]
    }

    #[test]
    fn each_has_the_part_that_its_flows_are_of_all() {
        for (own, theirs, parts) in [
            (set(0..4), set(0..4), [1.0, 1.0]),
            (set(0..4), set(2..6), [4.0 / 6.0, 4.0 / 6.0]),
            (set(0..300), set(100..1000), [0.3, 0.9]),
            (set(0..1), set(1..4), [0.25, 0.75]),
            (set([]), set(0..3), [1.0 / 3.0, 1.0]),
            (set([]), set([]), [1.0, 1.0]),
        ] {
            for (found, part) in pair(own, theirs).into_iter().zip(parts) {
                assert!((found - part).abs() < 0.03 * part, "{found} instead of {part}");
            }
        }
    }

    #[test]
    fn a_flow_that_the_other_edge_holds_counts_here_too() {
        let now = Instant::from_ns(1_000_000_000);
        let (own, shares) = (PerSide::both(set(0..1)), PerSide::both(set(0..3)));
        // Two of three flows use little of what they have here, because they have less there.
        let mut here = Peer { own, shares, theirs: None };
        let there = Peer { own: PerSide::both(set(1..7)), ..Peer::default() };
        here.hear(now, &there.message());
        let part = here.part(now, Side::Lan);
        assert!((part - 3.0 / 7.0).abs() < 0.02, "{part}");
    }

    #[test]
    fn what_was_heard_is_forgotten_and_no_message_asks_for_nothing() {
        let mut peer = Peer { own: PerSide::both(set(0..3)), ..Peer::default() };
        let heard = Instant::from_ns(5_000_000_000);
        peer.hear(heard, &[0xff; TOLD]);
        for side in Side::BOTH {
            let part = peer.part(heard + HOLDS, side);
            assert!((LEAST..0.02).contains(&part), "{part}");
            assert_eq!(peer.part(heard + HOLDS + Duration::from_ms(1), side), 1.0);
        }
    }
}
