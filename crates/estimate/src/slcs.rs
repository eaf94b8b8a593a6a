//! The smallest-link-capacity set of a path: the links that are the narrow link of some prefix of the path.

use headway_units::Rate;

/// A link of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its capacity.
    pub capacity: Rate,
    /// Its position, counted from 1 at the sender; of several links of this capacity, the first.
    pub hop: u32,
}

/// Returns the set of a path with these link `capacities` from the sender on, the narrow link first
/// (wan 2.14).
pub fn of(capacities: &[Rate]) -> Vec<Member> {
    let mut set: Vec<Member> = Vec::new();
    for (hop, &capacity) in (1..).zip(capacities) {
        if set.last().is_none_or(|least| capacity < least.capacity) {
            set.push(Member { capacity, hop });
        }
    }
    set.reverse();
    set
}

/// Returns the set from `measured` capacities of prefixes: entry i is the narrowest link among the first i +
/// 1, with errors; `None` where it could not be measured.
///
/// Steps down of at most `tolerance` (0.03 for 3 %) are taken for errors. Where a prefix is missing, its link
/// counts as no narrower than the ones before it.
pub fn of_prefixes(measured: &[Option<Rate>], tolerance: f64) -> Vec<Member> {
    let mut set: Vec<Member> = Vec::new();
    for (hop, capacity) in (1..).zip(measured) {
        let Some(capacity) = *capacity else { continue };
        if set.last().is_none_or(|least| capacity < least.capacity.scale(1.0 - tolerance)) {
            set.push(Member { capacity, hop });
        }
    }
    set.reverse();
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mbps(capacities: &[u64]) -> Vec<Rate> {
        capacities.iter().map(|mbps| Rate::from_bps(mbps * 1_000_000)).collect()
    }

    fn set(members: &[(u64, u32)]) -> Vec<Member> {
        let member = |&(mbps, hop)| Member { capacity: Rate::from_bps(mbps * 1_000_000), hop };
        members.iter().map(member).collect()
    }

    #[test]
    fn the_reference_path_has_three_members() {
        let path = mbps(&[500, 500, 400, 600, 300, 800, 600]);
        assert_eq!(of(&path), set(&[(300, 5), (400, 3), (500, 1)]));
    }

    #[test]
    fn an_equal_link_farther_away_adds_nothing() {
        assert_eq!(of(&mbps(&[500, 300, 400, 300])), set(&[(300, 2), (500, 1)]));
        assert_eq!(of(&[]), []);
    }

    #[test]
    fn prefixes_with_small_errors_give_the_same_set() {
        let measured = [Some(502), Some(498), Some(401), Some(400), Some(300), Some(300), None]
            .map(|mbps| mbps.map(|mbps| Rate::from_bps(mbps * 1_000_000)));
        assert_eq!(of_prefixes(&measured, 0.03), set(&[(300, 5), (401, 3), (502, 1)]));
    }

    proptest! {
        #[test]
        fn capacities_rise_and_hops_fall_from_the_narrow_link_on(path in prop::collection::vec(1u64..2_000, 1..12)) {
            let path = mbps(&path);
            let set = of(&path);
            prop_assert_eq!(Some(set[0].capacity), path.iter().min().copied());
            prop_assert!(set.windows(2).all(|pair| pair[0].capacity < pair[1].capacity && pair[0].hop > pair[1].hop));
            prop_assert_eq!(set.last().map(|last| last.hop), Some(1));
        }
    }
}
