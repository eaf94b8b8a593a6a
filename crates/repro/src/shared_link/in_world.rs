//! The same testbed in another world: its scenario, and the evaluation of the results.

use std::fmt::Write as _;

use headway_control::Kind;
use headway_record::Results;
use headway_units::{Bytes, Duration, Instant};

use super::{Marking, SAMPLE_INTERVAL, SEND_JITTER, Setting, delays, spread};
use crate::outcome::{Measures, named};
use crate::statistics::{mean, smallest};

/// Index of the bottleneck among the links of the scenario.
const BOTTLENECK: usize = 0;

/// Returns the experiment as a scenario file.
pub(crate) fn scenario(setting: &Setting, marking: Marking, controller: Kind, second: Duration) -> String {
    let [begin, end] = [setting.begin(second), setting.end(second)].map(|at| (at - Instant::ZERO).ns());
    let half = setting.half().ns();
    let queue = toml::Value::try_from(setting.queue(marking)).expect("made of numbers and words");
    let mut text = format!(
        "duration = \"{end} ns\"\nwarmup = \"{begin} ns\"\ninterval = \"{} ns\"\nmtu = {}\n\
         [[link]]\nfrom = \"switch\"\nto = \"receiver\"\nduplex = false\nrate = \"{} b/s\"\ndelay = \"{half} ns\"\n\
         queue = {queue}\n",
        SAMPLE_INTERVAL.ns(),
        setting.mtu,
        setting.rate().bps(),
    );
    let ecn = if marking == Marking::Ramp { "classic" } else { "dctcp" };
    for flow in 0..setting.flows as i64 {
        let start = second * flow;
        let stop = start + second * setting.seconds as i64;
        // ACKs return over links of their own, which have no rate limit.
        let _ = write!(
            text,
            "[[link]]\nfrom = \"sender{flow}\"\nto = \"switch\"\nduplex = false\njitter = \"{} ns\"\n\
             [[link]]\nfrom = \"receiver\"\nto = \"sender{flow}\"\nduplex = false\ndelay = \"{half} ns\"\n\
             [[flow]]\nfrom = \"sender{flow}\"\nto = \"receiver\"\ncontroller = \"{controller}\"\necn = \"{ecn}\"\n\
             start = \"{} ns\"\nstop = \"{} ns\"\nack-every = {}\noffload = false\n",
            SEND_JITTER.ns(),
            start.ns(),
            stop.ns(),
            setting.stretch,
        );
    }
    text
}

/// Evaluates the results over the measured time. They hold windows in whole segments only, so there is no
/// correlation of windows.
pub(crate) fn statistics(setting: &Setting, second: Duration, results: &Results) -> Measures {
    let Results { summary, flows, series, delays: waits, .. } = results;
    let begin = setting.begin(second);
    let counted = || (0..series.ends.len()).filter(|index| series.ends[*index] > begin);
    let link = &summary.links[BOTTLENECK];
    let least = counted().filter_map(|index| {
        let interval = &series.links[BOTTLENECK][index];
        interval.capacity.map(|capacity| interval.measured.get() as f64 / capacity.get() as f64)
    });
    let of_flow = |goodput: &Vec<Bytes>| {
        spread(&counted().map(|index| goodput[index].get() as f64).collect::<Vec<f64>>(), 1e-9)
    };
    let shares: Vec<f64> = flows.iter().map(|flow| flow.goodput_bytes as f64).collect();
    let at_two: Vec<f64> = series
        .tcp
        .iter()
        .flat_map(|flow| counted().map(|index| f64::from(u32::from(flow[index].cwnd <= 2))))
        .collect();
    let again = flows.iter().map(|flow| flow.retransmitted + flow.timeouts.unwrap_or_default());
    let mut numbers = delays(&waits[BOTTLENECK]);
    numbers.extend(named([
        ("utilisation", link.utilisation.unwrap_or(f64::NAN)),
        ("least-utilisation", smallest(least)),
        ("marked", link.marked as f64 / link.arrived.max(1) as f64),
        ("spread", spread(&shares, 1.0)),
        ("unsteadiness", mean(&series.goodput.iter().map(of_flow).collect::<Vec<f64>>())),
        ("at-two", mean(&at_two)),
        ("correlation", f64::NAN),
        ("losses", (link.dropped + again.sum::<u64>()) as f64),
    ]));
    numbers
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headway_scenario::Scenario;
    use headway_worlds::{Cancellation, Options, World};

    use super::super::{SETTINGS, run};
    use super::*;
    use crate::{Context, Error, Size, catalogue, run_in};

    fn read(setting: &Setting, marking: Marking, controller: &str, second: Duration) -> Scenario {
        let controller = controller.parse().expect("a controller");
        let text = scenario(setting, marking, controller, second);
        Scenario::parse(&text, Path::new("x.toml"), &[]).expect("a scenario")
    }

    #[test]
    fn every_setting_is_a_scenario() {
        for setting in &SETTINGS {
            for marking in [Marking::Ramp, Marking::Step, Marking::Instantaneous] {
                let scenario = read(setting, marking, "ls-dctcp:c=1,after-cut", Duration::from_ms(500));
                assert_eq!(scenario.link[BOTTLENECK].queue, Some(setting.queue(marking)));
                assert_eq!(scenario.flow_count(), setting.flows);
                assert_eq!(scenario.flow[0].controller.to_string(), "ls-dctcp:c=1,after-cut");
            }
        }
    }

    #[test]
    fn the_scenario_is_the_network_that_is_simulated() {
        let second = Duration::from_ms(100);
        let setting = SETTINGS.iter().find(|setting| setting.name == "4E").expect("a setting");
        let scenario = read(setting, Marking::Step, "ls-dctcp", second);
        let there = headway_worlds::run(&scenario, World::Sim, &Options::default()).expect("results");
        let there = statistics(setting, second, &there);
        let here = run(setting, Marking::Step, "ls-dctcp".parse().expect("a controller"), 1, second);
        let near =
            |one: f64, other: f64, part: f64| assert!((one / other - 1.0).abs() < part, "{there:?} {here:?}");
        near(there["mean"], here["mean"], 0.05);
        near(there["utilisation"], here["utilisation"], 0.01);
        near(there["marked"], here["marked"], 0.1);
        near(there["unsteadiness"], here["unsteadiness"], 0.2);
        assert!((there["at-two"] - here["at-two"]).abs() < 0.05, "{there:?} {here:?}");
        assert_eq!((there["losses"], there["correlation"].is_nan()), (0.0, true));
    }

    #[test]
    fn claims_about_what_another_world_does_not_measure_are_named_and_not_judged() {
        let text = include_str!("../../../../papers/ls-aimd/R2/experiment.toml");
        let text = text.replace("quick = 500", "quick = 5");
        let experiment = catalogue::parse("ls-aimd/R2", &text).expect("as before");
        let stop = Cancellation::default();
        let context = Context::new(Size::Quick, 1, 2, &stop);
        let options = Options::default();
        let outcome = run_in(World::Sim, &options, &experiment, &context).expect("nobody interrupts");
        let outcome = outcome.expect("a testbed");
        assert_eq!(
            (outcome.name().as_str(), outcome.world),
            ("ls-aimd/R2@sim-as-scenario", "sim-as-scenario")
        );
        let skipped = "c-1-before/3A/correlation minus c-1-before/3B/correlation";
        assert!(
            outcome.checks.iter().all(|check| check.claim.measure != skipped && !check.measured.is_nan())
        );
        assert_eq!(outcome.checks.len() + 1, experiment.claims.len());
        assert!(outcome.remarks.iter().any(|remark| remark.contains(skipped)), "{:?}", outcome.remarks);
        assert!(outcome.remarks.iter().any(|remark| remark.contains(" 5 ms ")), "{:?}", outcome.remarks);
        stop.cancel();
        let interrupted = run_in(World::Sim, &options, &experiment, &context);
        assert!(matches!(interrupted, Err(Error::Interrupted)));
    }
}
