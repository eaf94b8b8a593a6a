//! What limits a transfer, from what a tap at the sender sees, against flows whose limit is known.

use headway_control::Kind;
use headway_dataset::dumbbell::{Dumbbell, End, Flow, Pattern, Ran};
use headway_estimate::sabes::{Limit, Settings, Transfer};
use headway_sim::config::Burst;
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::{Rng, RngExt as _};

const START: Instant = Instant::from_ns(2_000_000_000);
const END: Instant = Instant::from_ns(22_000_000_000);
/// Share of the wanted rate that a flow must reach in its second half, or the limit meant is not the one in
/// effect: a congestion window needs many round trips for a long path after an early loss.
const REACHED: f64 = 0.9;

/// Returns a random dumbbell with a flow, what limits it, and the rate that this permits;
/// `None` for the path.
fn random_case(rng: &mut impl Rng) -> (Dumbbell, Limit, Option<Rate>) {
    let rtt = Duration::from_ms(rng.random_range(10..150));
    let capacity = rng.random_range(20.0..200.0_f64);
    let load = rng.random_range(0.0..0.6);
    let share = rng.random_range(0.1..0.6);
    let wanted = Rate::from_mbps(capacity * (1.0 - load) * share);
    let mut flow = Flow {
        controller: [Kind::Reno, Kind::Cubic][rng.random_range(0..2)],
        burst: [Burst::Single, Burst::Host][rng.random_range(0..2)],
        start: START,
        // The tap at the receiver makes the flow open with a handshake, which tells the scale of the window.
        taps: vec![End::Sender, End::Receiver],
        ..Flow::default()
    };
    let limit = [Limit::Application, Limit::ReceiveWindow, Limit::Path][rng.random_range(0..3)];
    match limit {
        Limit::Application => flow.application_rate = Some(wanted),
        Limit::ReceiveWindow if rng.random_range(0..2) == 0 => {
            (flow.read_rate, flow.receive_buffer) = (Some(wanted), Bytes::new(200_000));
        }
        Limit::ReceiveWindow => flow.receive_buffer = wanted.bytes_in(rtt).max(Bytes::new(8_000)),
        Limit::Path | Limit::Unknown => {}
    }
    let dumbbell = Dumbbell {
        capacity: Rate::from_mbps(capacity),
        rtt,
        queue: rng.random_range(100..600),
        load,
        pattern: Pattern::OnOff,
        sources: rng.random_range(5..30),
        flows: vec![flow],
        coalescing: None,
        probing: None,
        end: END,
    };
    (dumbbell, limit, (limit == Limit::Application).then_some(wanted))
}

/// Returns how many of `flows` flows are judged right, and prints the others.
fn judge(flows: usize, seed: u64) -> usize {
    let mut rng = random::generator(seed, "limits", 0);
    let (mut judged, mut right) = (0, 0);
    while judged < flows {
        let (dumbbell, limit, wanted) = random_case(&mut rng);
        let Ran { seen, .. } = dumbbell.run(seed + judged as u64);
        let mut transfer = Transfer::new(&Settings::default());
        let half = START + (END - START) / 2;
        let mut at_half = Bytes::ZERO;
        for segment in &seen[0][0] {
            transfer.observe(segment);
            if segment.at < half {
                at_half = transfer.acknowledged();
            }
        }
        let bytes = Bytes::new(transfer.acknowledged().get() - at_half.get());
        let reached = Rate::of(bytes, END - half).unwrap_or_default();
        if wanted.is_some_and(|wanted| reached < wanted.scale(REACHED)) {
            continue;
        }
        judged += 1;
        let found = transfer.limits().main();
        if found == limit {
            right += 1;
        } else {
            println!("{limit:?}, found {found:?}: {dumbbell:?} {:?}", transfer.limits());
        }
    }
    println!("{right} of {flows} right");
    right
}

#[test]
fn the_limit_is_right_for_95_of_100_flows() {
    assert!(judge(100, 4_000) >= 95);
}

/// The number that the documentation states.
#[test]
#[ignore = "takes a minute"]
fn the_limit_is_right_for_380_of_400_flows() {
    assert!(judge(400, 5_000) >= 380);
}
