//! What the allocator gives to each connection (wan 2.2).

use headway_edge::{Allocator, Changed, Rates, Ticket};
use headway_units::{PerSide, Rate, Side};

use crate::support::{mbps, policy, several};

const TWO: &str = "[[class]]\nname = 'a'\nshare = 0.7\nports = [1]\n[[class]]\nname = 'b'\nshare = 0.3\n";

/// The rate that a share is, in b/s.
fn rate(share: u64) -> f64 {
    share as f64 / (1_u64 << 40) as f64 * 8e9
}

fn near(share: u64, expected: f64) {
    // An unit of a share is 0.007 b/s.
    assert!((rate(share) - expected).abs() < 0.01, "{} b/s, not {expected}", rate(share));
}

#[test]
fn four_connections_have_a_quarter_of_the_bandwidth_delay_product_each() {
    // wan F4
    let mut middlebox = crate::support::middlebox("", 1000.0);
    for connection in several(&mut middlebox, 4, 443, 60, 10) {
        assert_eq!(connection.limit(&middlebox), Some(1_875_000));
    }
}

#[test]
fn classes_have_their_shares() {
    // wan F5
    let mut allocator = Allocator::new(&policy(TWO), mbps(100.0));
    for class in [0, 0, 0, 1, 1] {
        allocator.begin(class);
    }
    let sums =
        [0, 1].map(|class| f64::from(allocator.live(class)) * rate(allocator.shares(class)[Side::Lan]));
    assert!((sums[0] - 70e6).abs() < 0.1 && (sums[1] - 30e6).abs() < 0.1, "{sums:?}");
}

#[test]
fn a_connection_that_ends_leaves_its_part_to_the_others_of_its_class() {
    // wan F6: 4 to 3 is more by 4/3.
    let mut allocator = Allocator::new(&policy(TWO), mbps(100.0));
    for _ in 0..4 {
        assert_eq!(allocator.begin(0).1, Changed::Class(0));
    }
    near(allocator.shares(0)[Side::Lan], 17.5e6);
    assert_eq!(allocator.end(0), Changed::Class(0));
    near(allocator.shares(0)[Side::Lan], 17.5e6 * 4.0 / 3.0);
    assert_eq!(allocator.shares(1), [0; 2]);
    // It is also what a change of class does.
    allocator.change_class(0, 1);
    near(allocator.shares(0)[Side::Lan], 35e6);
    near(allocator.shares(1)[Side::Lan], 30e6);
}

#[test]
fn delta_scales_everything() {
    // wan F11
    for (delta, limit) in [(0.9, 1_687_500), (1.0, 1_875_000), (1.1, 2_062_500)] {
        let mut middlebox = crate::support::middlebox(&format!("delta = {delta}"), 1000.0);
        let connections = several(&mut middlebox, 4, 443, 60, 10);
        assert_eq!(connections[0].limit(&middlebox), Some(limit), "{delta}");
    }
}

#[test]
fn an_idle_class_keeps_its_share_unless_it_lends() {
    let mut keeps = Allocator::new(&policy(TWO), mbps(100.0));
    keeps.begin(1);
    near(keeps.shares(1)[Side::Lan], 30e6);
    let mut lends = Allocator::new(&policy(&format!("borrow-idle = true\n{TWO}")), mbps(100.0));
    assert_eq!(lends.begin(1).1, Changed::All);
    near(lends.shares(1)[Side::Lan], 100e6);
    assert_eq!(lends.begin(1).1, Changed::Class(1));
    near(lends.shares(1)[Side::Lan], 50e6);
    // Who comes gets all of the class's share back, and who goes leaves it again.
    assert_eq!(lends.begin(0).1, Changed::All);
    near(lends.shares(0)[Side::Lan], 70e6);
    near(lends.shares(1)[Side::Lan], 15e6);
    assert_eq!(lends.end(0), Changed::All);
    near(lends.shares(1)[Side::Lan], 50e6);
}

#[test]
fn what_no_class_has_is_lent_to_none() {
    let text = "borrow-idle = true\n[[class]]\nname = 'a'\nshare = 0.4\nports = [1]\n[[class]]\nname = 'b'\nshare = 0.1";
    let mut allocator = Allocator::new(&policy(text), mbps(100.0));
    allocator.begin(1);
    near(allocator.shares(1)[Side::Lan], 50e6);
}

#[test]
fn the_sides_of_a_link_may_differ_and_less_may_be_free() {
    let mut allocator = Allocator::new(&policy(TWO), [Rate::from_mbps(100.0), Rate::from_mbps(20.0)]);
    allocator.begin(1);
    let shares = |allocator: &Allocator| allocator.shares(1);
    near(shares(&allocator)[Side::Lan], 30e6);
    near(shares(&allocator)[Side::Wan], 6e6);
    let available = |rate: Option<f64>| Rates {
        available: PerSide([rate.map(Rate::from_mbps), None]),
        ..Rates::default()
    };
    allocator.follow(available(Some(50.0)));
    near(shares(&allocator)[Side::Lan], 15e6);
    // More than the link has is never free.
    allocator.follow(available(Some(500.0)));
    near(shares(&allocator)[Side::Lan], 30e6);
    allocator.follow(available(None));
    allocator.set_capacity(Side::Wan, Rate::from_mbps(10.0));
    near(shares(&allocator)[Side::Lan], 30e6);
    near(shares(&allocator)[Side::Wan], 3e6);
    // A link without any rate is no link without limit.
    allocator.set_capacity(Side::Lan, Rate::ZERO);
    assert_eq!(shares(&allocator)[Side::Lan], 1);
}

#[test]
fn the_printed_algorithm_only_ever_lowers() {
    // wan 2.2: min with the stored window, and nothing when a connection ends.
    let mut allocator = Allocator::new(&policy(&format!("literal = true\n{TWO}")), mbps(100.0));
    let first = allocator.begin(0).0;
    near(allocator.shares_since(0, first)[Side::Lan], 70e6);
    let second = allocator.begin(0).0;
    for ticket in [first, second] {
        near(allocator.shares_since(0, ticket)[Side::Lan], 35e6);
    }
    assert_eq!(allocator.end(0), Changed::Nothing);
    near(allocator.shares_since(0, first)[Side::Lan], 35e6);
    // A later one is computed with those that are left, and the first keeps what it had at worst.
    let third = allocator.begin(0).0;
    near(allocator.shares_since(0, third)[Side::Lan], 35e6);
    allocator.begin(0);
    near(allocator.shares_since(0, first)[Side::Lan], 70e6 / 3.0);
    (0..2).for_each(|_| _ = allocator.end(0));
    // Another class's beginning computes this one, too: one is left, with what it had.
    let other = allocator.begin(1).0;
    near(allocator.shares_since(1, other)[Side::Lan], 30e6);
    near(allocator.shares_since(0, first)[Side::Lan], 70e6 / 3.0);
    // After the last has gone, the next begins anew.
    allocator.end(0);
    let fresh = allocator.begin(0).0;
    near(allocator.shares_since(0, fresh)[Side::Lan], 70e6);
    // A slower link is noticed with the next beginning, a faster one never.
    assert_eq!(allocator.set_capacity(Side::Lan, Rate::from_mbps(10.0)), Changed::Nothing);
    near(allocator.shares_since(0, fresh)[Side::Lan], 70e6);
    allocator.begin(1);
    near(allocator.shares_since(0, fresh)[Side::Lan], 7e6);
    allocator.set_capacity(Side::Lan, Rate::from_mbps(100.0));
    allocator.begin(1);
    near(allocator.shares_since(0, fresh)[Side::Lan], 7e6);
    near(allocator.shares_since(0, fresh)[Side::Wan], 70e6);
}

#[test]
fn classes_that_there_are_not_change_nothing() {
    let mut allocator = Allocator::new(&policy(TWO), mbps(100.0));
    assert_eq!(allocator.begin(2).1, Changed::Nothing);
    assert_eq!((allocator.end(2), allocator.end(0)), (Changed::Nothing, Changed::Nothing));
    assert_eq!((allocator.shares(9), allocator.live(9)), (PerSide::default(), 0));
    assert_eq!(allocator.shares_since(0, Ticket::default()), [0; 2]);
}

#[test]
fn a_class_never_exceeds_its_ceiling_and_priority_has_no_limit() {
    let text = "borrow-idle = true\n[[class]]\nname = 'a'\nshare = 0.5\nceiling = '20 Mb/s'\nports = [1]\n\
                [[class]]\nname = 'b'\nshare = 0.3\npriority = true\nports = [2]\n[[class]]\nname = 'c'\nshare = 0.2\n";
    let mut allocator = Allocator::new(&policy(text), mbps(100.0));
    allocator.begin(0);
    near(allocator.shares(0)[Side::Lan], 20e6);
    allocator.begin(0);
    near(allocator.shares(0)[Side::Wan], 10e6);
    allocator.begin(1);
    assert_eq!(allocator.shares(1), [0; 2]);
    // What a class with priority has is kept free for it while it has connections.
    allocator.begin(2);
    near(allocator.shares(2)[Side::Lan], 20e6);
    allocator.end(1);
    near(allocator.shares(2)[Side::Lan], 100e6 * 0.2 / 0.7);
}
