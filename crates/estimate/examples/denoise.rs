//! Recovers the gaps of a stream that a NIC delivered in batches:
//! `cargo run -p headway-estimate --example denoise`.

use headway_estimate::{Gaps, Refusal, Settings};
use headway_units::Duration;

fn main() -> Result<(), Refusal> {
    // Packets leave every 10 us and arrive every 12 us, but the NIC interrupts only for every twelfth.
    let received =
        (1..=96).map(|packet| if packet % 12 == 0 { Duration::from_us(133) } else { Duration::from_us(1) });
    let mut gaps = Gaps { send: vec![Duration::from_us(10); 96], receive: received.collect() };
    let show = |name: &str, gaps: &[Duration]| {
        let shown: Vec<String> = gaps.iter().step_by(8).map(|gap| format!("{:.1}", gap.us())).collect();
        println!("{name}: {} us", shown.join(" "));
    };
    show("as they arrived", &gaps.receive);
    Settings::default().denoise.apply(&mut gaps, &mut Vec::new())?;
    show("after BASS     ", &gaps.receive);
    Ok(())
}
