//! The same testbed in another world: its scenario, and the evaluation of the results.

use headway_control::Kind;
use headway_record::Results;
use headway_scenario::{EcnMode, FlowSpec, LinkSpec, Scenario};
use headway_units::{Bytes, Duration, Instant};

use super::{Marking, SAMPLE_INTERVAL, SEND_JITTER, Setting, delays, spread};
use crate::outcome::{Measures, named};
use crate::statistics::{mean, smallest};

/// Index of the bottleneck among the links of the scenario.
const BOTTLENECK: usize = 0;

/// Returns the experiment as a scenario.
pub(crate) fn scenario(setting: &Setting, marking: Marking, controller: Kind, second: Duration) -> Scenario {
    let [warmup, duration] = [setting.begin(second), setting.end(second)].map(|at| at - Instant::ZERO);
    let (half, one_way) =
        (setting.half(), |from: &str, to: &str| LinkSpec { duplex: false, ..LinkSpec::new(from, to) });
    let queue = Some(setting.queue(marking));
    let bottleneck =
        LinkSpec { rate: Some(setting.rate()), delay: half, queue, ..one_way("switch", "receiver") };
    let (mut link, mut flow) = (vec![bottleneck], Vec::new());
    for number in 0..setting.flows as i64 {
        let (sender, start) = (format!("sender{number}"), second * number);
        link.push(LinkSpec { jitter: SEND_JITTER.into(), ..one_way(&sender, "switch") });
        // ACKs return over links of their own, which have no rate limit.
        link.push(LinkSpec { delay: half, ..one_way("receiver", &sender) });
        flow.push(FlowSpec {
            ecn: if marking == Marking::Ramp { EcnMode::Classic } else { EcnMode::Dctcp },
            start,
            stop: Some(start + second * setting.seconds as i64),
            ack_every: setting.stretch,
            offload: false,
            ..FlowSpec::new(&sender, "receiver", controller)
        });
    }
    let (interval, mtu) = (SAMPLE_INTERVAL, setting.mtu as u32);
    Scenario { duration, warmup, interval, mtu, flow, ..Scenario::of(link) }
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
    use headway_worlds::{Cancellation, Options, World};

    use super::super::{SETTINGS, run};
    use super::*;
    use crate::{Context, Error, Size, catalogue, run_in};

    fn read(setting: &Setting, marking: Marking, controller: &str, second: Duration) -> Scenario {
        let controller = controller.parse().expect("a controller");
        scenario(setting, marking, controller, second).checked().expect("a scenario")
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
