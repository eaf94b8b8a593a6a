//! WXCP, which goes by what an 802.11 MAC counts.

use headway_arithmetic::explicit::{Heard, Law};

use crate::support::{Random, Router, assert_close, signed};

/// Returns what a MAC counts in an interval of 100 ms: busy and own time in ms, bytes and retransmissions.
fn heard(busy: u64, own: u64, bytes: u64, retries: u32) -> Heard {
    Heard { busy: busy * 1_000_000, own: own * 1_000_000, bytes, retries, source: 0 }
}

fn router() -> Router {
    let mut router = Router::published(Law::Wxcp);
    router.settle(0, 0);
    router
}

/// Returns F in B/s after an interval in which the MAC has counted this.
fn feedback(router: &mut Router, counted: &[Heard]) -> f64 {
    counted.iter().for_each(|heard| router.queue.hear(heard));
    signed(router.interval(15_000).feedback)
}

/// xcp-rcp F36: equations 2.21 to 2.23 with synthetic counters.
#[test]
fn feedback_has_the_value_of_the_equation() {
    let mut router = router();
    // 30 000 B in 20 ms, so 1.5 MB/s, of which 40 % are idle; no other station: 0.2 of 600 kB/s.
    assert_close(feedback(&mut router, &[heard(60, 20, 30_000, 0)]), 120_000.0, 1e-3);
    // Without frames of its own the last rate holds.
    assert_close(feedback(&mut router, &[heard(90, 0, 0, 0)]), 0.2 * 150_000.0, 1e-3);
    // Eight retransmissions count a quarter at once: 67 B for each of two, in 100 ms.
    assert_close(feedback(&mut router, &[heard(100, 0, 0, 8)]), -67.0 * 2.0 / 0.1, 1e-3);
    assert_close(feedback(&mut router, &[heard(100, 0, 0, 0)]), -67.0 * 1.5 / 0.1, 1e-3);
    // A standing queue of 6000 B: 0.1 of it per RTT.
    router.settle(6000, 4);
    let seen = feedback(&mut router, &[heard(100, 0, 0, 0)]);
    assert_close(seen, -0.1 * 6000.0 / 0.1 - 67.0 * 1.5 * 0.75_f64.powi(3) / 0.1, 1e-3);
}

/// xcp-rcp F36 for random counters.
#[test]
fn feedback_is_that_of_double_precision() {
    let (mut router, mut random, mut average) = (router(), Random(1), 0.0);
    for _ in 0..10_000 {
        let own = random.logarithmic(1e3, 1e8);
        let busy = own + random.unit() * (1.2e8 - own);
        let bytes = random.logarithmic(1.0, 1e7);
        let retries = (random.unit() * 200.0) as u32;
        let neighbours = (random.unit() * 40.0) as u32;
        router.queue.hear(&Heard {
            busy: busy as u64,
            own: own as u64,
            bytes: bytes as u64,
            retries,
            source: 0,
        });
        (1..=neighbours).for_each(|source| router.queue.hear(&Heard { source, ..Heard::default() }));
        let found = signed(router.interval(15_000).feedback);
        let idle = (1.0 - busy.floor() / 1e8).max(0.0);
        let available = idle * bytes.floor() / (own.floor() / 1e9);
        average += 0.25 * (f64::from(retries) - average);
        let terms = [0.2 * available / f64::from(neighbours + 1), 67.0 * average / 0.1];
        // Gains have 16 bits.
        let limit = 1e-4 * (terms[0] + terms[1]) + 1e-2;
        assert!((found - terms[0] + terms[1]).abs() < limit, "{found} {terms:?}");
    }
}

/// xcp-rcp F37: distinct addresses within the interval.
#[test]
fn neighbours_are_counted_once_and_anew_in_every_interval() {
    let mut router = router();
    let alone = feedback(&mut router, &[heard(60, 20, 30_000, 0)]);
    let from = |source| Heard { source, ..Heard::default() };
    let counted = [heard(60, 20, 30_000, 0), from(7), from(9), from(7), from(8), from(9)];
    assert_close(feedback(&mut router, &counted), alone / 4.0, 1e-3);
    assert_close(feedback(&mut router, &[heard(60, 20, 30_000, 0)]), alone, 1e-3);
    let many: Vec<Heard> = std::iter::once(heard(60, 20, 30_000, 0)).chain((1..=1000).map(from)).collect();
    assert_close(feedback(&mut router, &many), alone / 65.0, 1e-3);
}
