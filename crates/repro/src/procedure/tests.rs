use super::*;

#[test]
fn a_seed_gives_all_variants_the_same_starts_and_capacities() {
    let variant = |law: &str, more: &str| -> Router {
        let text = format!(
            "controller = \"xcp\"\nqueue = {{ kind = \"{law}\" }}\nredrawn = {{ least = 0.7, every = \"2 s\" }}\n{more}"
        );
        toml::from_str(&text).expect("a router")
    };
    let drawn = capacities(&variant("xcp", ""), 1);
    assert_eq!((times(1), &drawn), (times(1), &capacities(&variant("xcp-b", ""), 1)));
    assert_ne!(times(1), times(2));
    assert!(drawn.lowest() >= CAPACITY.scale(0.7) && drawn.highest() <= CAPACITY);
    assert_eq!(drawn.list().count(), 48);
    let interrupted = capacities(&variant("xcp", "outages = [[\"1 s\", \"200 ms\"]]"), 1);
    assert_eq!(interrupted.list().count(), 50, "the rate falls to zero and comes back");
    for (number, (start, stop)) in times(3).into_iter().enumerate() {
        assert!((10.0 * number as f64..10.0 * number as f64 + 0.1).contains(&start), "{start}");
        assert!((stop - start - 60.0).abs() < 1e-9);
    }
}

/// A run without a router's records in which flows have equal rates, but the third rises to its share within
/// 1 s, and a queue of 9000 B that lasts half a second after each start.
fn made_up() -> Trace {
    let flows: Vec<(f64, f64)> =
        (0..FLOWS).map(|flow| (10.0 * flow as f64, 10.0 * flow as f64 + 60.0)).collect();
    let steps = END.ns() / STEP.ns();
    let time = |step: i64| (step as f64 + 0.5) * STEP.secs_f64();
    let rate = |time: f64, flow: usize| {
        let (start, stop) = flows[flow];
        let rises = if flow == 2 { (time - start).clamp(0.0, 1.0) } else { 1.0 };
        if (start..stop).contains(&time) { 0.5 * rises } else { 0.0 }
    };
    let waits = |time: f64| flows.iter().any(|(start, _)| (*start..start + 0.5).contains(&time));
    let interval = |number: i64| Interval {
        delivered: [1_000 * number as u64; FLOWS],
        left: 15_000 * number as u64,
        possible: 18_750 * number as u64,
        dropped: u64::from(number >= 400) * 7,
    };
    Trace {
        step: STEP,
        queue: (0..steps).map(|step| if waits(time(step)) { 9_000 } else { 0 }).collect(),
        rates: (0..steps).map(|step| std::array::from_fn(|flow| rate(time(step), flow))).collect(),
        intervals: (1..=steps / STEPS as i64).map(interval).collect(),
        flows,
        records: Vec::new(),
        alpha: f64::NAN,
        has_target: false,
    }
}

#[test]
fn numbers_say_how_long_a_flow_takes_to_its_share_and_its_queue_to_drain() {
    let numbers = made_up().numbers();
    assert!((numbers["utilisation"] - 80.0).abs() < 1e-9);
    assert_eq!((numbers["drops"], numbers["drops/30-80"]), (7.0, 7.0));
    assert_eq!((numbers["queue/10-80"], numbers["arrival-3/queue"]), (9_000.0, 9_000.0));
    assert!((numbers["arrival-3/drained"] - 5.0).abs() < 0.1, "{}", numbers["arrival-3/drained"]);
    // With two equal flows and a third of share x, the index is 0.95 at x = 0.58 and 0.99 at x = 0.80.
    assert!((5.9..7.1).contains(&numbers["arrival-3/jain-95"]), "{}", numbers["arrival-3/jain-95"]);
    assert!((7.9..9.1).contains(&numbers["arrival-3/jain-99"]), "{}", numbers["arrival-3/jain-99"]);
    // Rounding at the edge of an interval lets the others look one RTT late.
    assert!(numbers["arrival-2/jain-99"] < 1.1 && numbers["arrival-4/jain-99"] < 1.1);
    assert!((numbers["third/second-2"] - 10.0).abs() < 1e-9);
    assert!(numbers["lambda"].is_nan() && numbers["error/20-60"].is_nan(), "there is no such router");
}

#[test]
fn the_queue_waits_and_the_packet_in_transmission_does_not() {
    let router = |text: &str| -> Router { toml::from_str(text).expect("a router") };
    let fixed = router("controller = \"rcp\"\nqueue = { kind = \"rcp\", limit = \"76900 B\" }");
    let varying = router(
        "controller = \"rcp\"\nqueue = { kind = \"rcp\", limit = \"76900 B\" }\n\
         redrawn = { least = 0.7, every = \"2 s\" }",
    );
    let [fixed, varying] = [run(&fixed, 1).numbers(), run(&varying, 1).numbers()];
    assert!(fixed["utilisation"] > 95.0 && varying["utilisation"] > 95.0, "{fixed:?}");
    assert_eq!(fixed["arrival-2/queue"] % 1_500.0, 0.0, "whole packets");
    assert!(varying["queue/mean"] > fixed["queue/mean"], "the router believes in too much");
}

#[test]
fn the_scenario_of_a_variant_behaves_as_the_testbed_does() {
    use headway_worlds::{Cancellation, Kept, Options, World};

    use crate::job::Job;
    use crate::{Context, Size, catalogue};

    let options = Options::default();
    let folder = tempfile::tempdir().expect("a folder");
    let kept = Kept::open(folder.path(), "one".to_owned(), |_| {}).expect("writable");
    let stop = Cancellation::default();
    let context = Context { kept: Some(&kept), ..Context::new(Size::Quick, 1, 1, &stop) };
    let experiment = &catalogue::select(&["xcp-rcp/E1".to_owned()]).expect("it exists")[0];
    let job = Job { experiment, context: &context, world: World::Sim, as_scenarios: true, options: &options };
    let variants = [
        "controller = \"xcp\"\nqueue = { kind = \"xcp-b\", limit = \"76900 B\", kappa = \"6000 B\" }",
        "controller = \"rcp\"\nqueue = { kind = \"rcp\", limit = \"76900 B\" }",
        "controller = \"xcp\"\nqueue = { kind = \"xcp\", limit = \"76900 B\" }\noutages = { every = \"10 s\", length = \"100 ms\" }",
        "controller = \"cubic\"\nqueue = { kind = \"drop-tail\", limit = \"76900 B\" }\n\
         redrawn = { least = 0.7, every = \"2 s\" }",
    ];
    for text in variants {
        let router: Router = toml::from_str(text).expect("a router");
        let again = || run_in(&job, &router, "test", 0).expect("a run");
        let traces = [run(&router, job.seed(0)), again()];
        // The second time it is read from its file.
        let (first, second) = (traces[1].numbers(), again().numbers());
        assert!(folder.path().join("sim/xcp-rcp/E1/test/1.json").exists() && first.len() == second.len());
        for (what, value) in &first {
            let other = second[what];
            assert!(*value == other || value.is_nan() && other.is_nan(), "{what}: {value} and {other}");
        }
        // Each interval of the scenario rounds to a byte.
        let [one, other] = [0, 1].map(|run: usize| traces[run].intervals.last().expect("intervals").possible);
        assert!(one.abs_diff(other) < 10_000, "the same capacities: {one}, {other}");
        let [direct, scenario] = traces.map(|trace| trace.numbers());
        // The longest queue at any moment depends on chance: the router's timers have other seeds.
        for (what, most) in [("utilisation", 0.01), ("queue/mean", 0.1), ("persistent/mean", 0.1)] {
            let [one, other] = [direct[what], scenario[what]];
            assert!(one.is_nan() || (one - other).abs() <= most * one, "{text}: {what}: {one}, {other}");
        }
    }
}

/// xcp-rcp 2.10, 4.4: a first flow of 0.5 Mb/s behind a router that knows neither capacity nor interface. The
/// thesis has a queue of 50 kB after the second flow; its law overfills the buffer of 75 kB here.
#[test]
fn published_errors_overfills_the_buffer_after_a_limited_flow_and_repaired_errors_does_not() {
    let numbers = |published: &str, controller: &str| {
        let text = format!(
            "controller = \"{controller}\"\nline = \"100 Mb/s\"\napplication = \"0.5 Mb/s\"\n\
             queue = {{ kind = \"errors\", limit = \"76900 B\", capacity = \"0 b/s\"{published} }}"
        );
        run(&toml::from_str(&text).expect("a router"), 1).numbers()
    };
    let repaired = numbers("", "xcp");
    assert!(repaired["arrival-2/queue"] < 30_000.0 && repaired["drops"] == 0.0, "{repaired:?}");
    for published in [", published = true", ", published = [\"integrator\"]"] {
        let published = numbers(published, "xcp:published");
        assert!(published["arrival-2/queue"] > 50_000.0 && published["drops"] > 1_000.0, "{published:?}");
    }
}
