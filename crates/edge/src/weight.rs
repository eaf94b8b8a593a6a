//! How what a class has is divided among hosts first, and then among the connections of each.
//!
//! A host can open as many connections as it likes, and each would have as much as the only
//! one of another host.

use std::collections::HashMap;
use std::net::IpAddr;

use headway_arithmetic::rwm::{self, WHOLE};
use headway_units::{PerSide, Side};

/// The most that programs in the kernel have room for.
const MOST: u16 = (1 << 12) - 1;
/// Weights are such powers of two, so that they seldom change. Range 4 to 16: windows differ from what is
/// right by half of a step.
const STEPS: f64 = 8.0;

/// What a connection has towards each side in parts of one of its class if all had as much, in units of 1/64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(PerSide<u16>);

impl Default for Weight {
    fn default() -> Weight {
        Weight(PerSide::both(WHOLE))
    }
}

impl Weight {
    /// Returns what is nearest to these parts.
    fn of(parts: PerSide<f64>) -> Weight {
        Weight(parts.map(|part| {
            let rounded = ((STEPS * part.log2()).round() / STEPS).exp2();
            ((rounded * f64::from(WHOLE)).round() as u16).clamp(1, MOST)
        }))
    }

    /// Returns the weights towards each side in units of 1/64, of 12 bits each.
    pub const fn units(self) -> PerSide<u16> {
        self.0
    }

    /// Returns a share towards a side, 0 or 1, with this weight: 0, which is no limit, stays so.
    pub fn scale(self, side: Side, share: u64) -> u64 {
        rwm::weighed(share, self.0[side])
    }
}

/// What the connections of each host use of the shares of each class, towards each side.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    used: HashMap<(u32, IpAddr), PerSide<f64>>,
    /// For each class, all of that, and how many hosts it is: one at most for each.
    all: HashMap<u32, [PerSide<f64>; 2]>,
}

impl Hosts {
    /// Counts a connection of a class and a host that leaves this much of its share.
    pub(crate) fn add(&mut self, class: u32, host: IpAddr, unused: PerSide<f64>) {
        let of_host = self.used.entry((class, host)).or_default();
        let [all, hosts] = self.all.entry(class).or_default();
        for side in Side::BOTH {
            let before = of_host[side].min(1.0);
            of_host[side] += 1.0 - unused[side];
            all[side] += 1.0 - unused[side];
            hosts[side] += of_host[side].min(1.0) - before;
        }
    }

    /// Returns the weight of a connection of a class and a host.
    pub(crate) fn weight(&self, class: u32, host: IpAddr) -> Weight {
        let (Some(of_host), Some([all, hosts])) = (self.used.get(&(class, host)), self.all.get(&class))
        else {
            return Weight::default();
        };
        let part = |side: Side| all[side].max(1.0) / (hosts[side].max(1.0) * of_host[side].max(1.0));
        Weight::of(PerSide::of(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> IpAddr {
        IpAddr::from([192, 168, 1, number])
    }

    fn weights(connections: &[(u8, f64)]) -> impl Fn(u8) -> f64 {
        let mut hosts = Hosts::default();
        connections.iter().for_each(|(number, unused)| hosts.add(0, host(*number), PerSide([*unused; 2])));
        move |number| f64::from(hosts.weight(0, host(number)).units()[Side::Lan]) / f64::from(WHOLE)
    }

    fn is_about(weight: f64, expected: f64) {
        assert!((weight / expected - 1.0).abs() < 0.06, "{weight} {expected}");
    }

    #[test]
    fn one_host_shares_by_its_connections() {
        let weight = weights(&[(1, 0.0), (1, 0.5), (1, 0.0)]);
        assert_eq!(weight(1), 1.0);
    }

    #[test]
    fn hosts_have_as_much_whatever_they_open() {
        // Seven connections share; each of six has a twelfth, and the other one a half.
        let weight = weights(&[(1, 0.0), (1, 0.0), (1, 0.0), (1, 0.0), (1, 0.0), (1, 0.0), (2, 0.0)]);
        is_about(weight(1), 7.0 / 12.0);
        is_about(weight(2), 7.0 / 2.0);
    }

    #[test]
    fn what_a_host_does_not_use_is_for_the_others() {
        // The second host uses a fifth of what it may have.
        let weight = weights(&[(1, 0.0), (1, 0.0), (2, 0.8)]);
        is_about(weight(1), 2.2 / (1.2 * 2.0));
        is_about(weight(2), 2.2 / 1.2);
    }

    #[test]
    fn no_limit_stays_none_and_a_share_stays_one() {
        assert_eq!(Weight::default().scale(Side::Lan, 1_000), 1_000);
        assert_eq!(
            (
                Weight::of(PerSide([0.001; 2])).scale(Side::Lan, 3),
                Weight::of(PerSide([0.5; 2])).scale(Side::Wan, 0)
            ),
            (1, 0)
        );
        assert_eq!(Weight::of(PerSide([1e9; 2])).units(), [MOST; 2]);
    }
}
