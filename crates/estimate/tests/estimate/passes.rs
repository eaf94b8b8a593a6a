//! Multi-pass smoothing terminates on any input (rapid F32).

use headway_estimate::Gaps;
use headway_estimate::denoise::Denoise;
use headway_units::Duration;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

#[test]
fn a_million_random_streams_need_at_most_16_passes() {
    let mut rng = Pcg64Mcg::seed_from_u64(32);
    let (denoise, mut gaps, mut scratch) = (Denoise::default(), Gaps::default(), Vec::new());
    let (mut kept, mut most) = (0, 0);
    for _ in 0..1_000_000 {
        gaps.clear();
        // From almost smooth streams to streams of nothing but spikes.
        let spread = 1_000 << rng.random_range(0..8);
        for _ in 0..rng.random_range(8..32) {
            gaps.push(Duration::from_us(10), Duration::from_ns(rng.random_range(0..spread)));
        }
        if let Ok(passes) = denoise.apply(&mut gaps, &mut scratch) {
            kept += 1;
            most = most.max(passes.count);
        }
    }
    println!("{kept} streams kept, at most {most} passes");
    assert!(most <= 16);
    assert!(kept > 500_000);
}
