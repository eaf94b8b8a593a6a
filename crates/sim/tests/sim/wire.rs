//! What happens to packets on the wire: delays that change, copies, damage, and ECN that is cleared.

use std::path::Path;

use crate::support::*;
use headway_control::Kind;
use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::config::Ecn;
use headway_sim::{LinkConfig, Network, Run};
use headway_traffic::Traffic;
use headway_traffic::channel::{DelayTrace, Delays, EcnField, Jitter};
use headway_units::{Bytes, Duration, Instant};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// Returns the delays (ns) of probes of 100 bytes over a link, sent at these times (ns).
fn delays(config: &LinkConfig, times: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut network = Network::new(3);
    let link = network.add_link(config);
    let prober = network.add_prober(&[link], None);
    let times: Vec<u64> = times.into_iter().collect();
    for time in &times {
        network.send_probe(prober, Instant::from_ns(*time), Bytes::new(100));
    }
    while let Some(next) = network.next_event() {
        network.run_until(next);
    }
    let log = network.take_probe_log(prober);
    log.iter().zip(times).map(|(log, sent)| log.arrived.unwrap().ns() - sent).collect()
}

/// Runs a scenario of 2 s with one link of 10 Mb/s, with these keys, and a flow or traffic there.
fn run(link: &str, load: &str) -> Results {
    let text = format!(
        "duration = \"2 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n{link}\n{load}\nfrom = \"a\"\nto = \"b\"\n"
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

const FLOW: &str = "[[flow]]\ncontroller = \"reno\"";

#[test]
fn the_delay_of_a_packet_is_that_of_the_time_at_which_it_leaves_and_order_stays() {
    let trace: DelayTrace =
        serde_json::from_str(r#"[["0 s", "10 ms"], ["1 s", "30 ms"], ["2 s", "5 ms"]]"#).unwrap();
    let config = LinkConfig { delay_trace: Some(trace.clone()), ..wire(Duration::ZERO) };
    let times: Vec<u64> = (0..3_000).map(|number| number * 1_000_000).collect();
    let mut last = 0;
    for (delay, sent) in delays(&config, times.clone()).into_iter().zip(times) {
        let after = Instant::from_ns(sent) - Instant::ZERO;
        last = last.max(sent + trace.at(after).ns().unsigned_abs());
        assert_eq!(sent + delay, last, "at {sent} ns");
    }
}

#[test]
fn the_smoothed_rtt_follows_a_trace_in_a_scenario() {
    let link = "delay-trace = [[\"0 s\", \"10 ms\"], [\"1 s\", \"40 ms\"]]";
    let flow = format!("{FLOW}\napplication-rate = \"1 Mb/s\"");
    let results = run(link, &flow);
    let series = &results.series.tcp[0];
    let srtt = |index: usize| series[index].srtt.unwrap().ms();
    // There and back, and 1.2 ms for a segment; the receiver may wait for a second segment for up to 12 ms.
    assert!((20.0..36.0).contains(&srtt(8)) && (80.0..96.0).contains(&srtt(18)), "{} {}", srtt(8), srtt(18));
}

#[test]
fn copies_and_losses_in_one_direction_are_as_many_as_told() {
    let traffic = "[[traffic]]\nmodel = \"cbr\"\nrate = \"8 Mb/s\"\nsize = \"100 B\"";
    // 20 000 packets; four standard deviations.
    let near = |count: u64, share: f64| {
        (count as f64 - 20_000.0 * share).abs() < 4.0 * (20_000.0 * share * (1.0 - share)).sqrt()
    };
    let lossy = run("loss = 0.05", traffic);
    assert!(near(lossy.summary.links[0].lost, 0.05), "{}", lossy.summary.links[0].lost);
    let results = run("duplicate = 0.1\ncorrupt = 0.02", traffic);
    let [copies, damaged] =
        [results.summary.links[0].copies, results.summary.links[0].damaged].map(Option::unwrap);
    assert!(near(copies, 0.1 * 0.98) && near(damaged, 0.02), "{copies} {damaged}");
    let text = results.links_csv();
    assert!(text.lines().nth(1).unwrap().ends_with(&format!(",0,{copies},{damaged}")), "{text}");
    let mut config = link(mbps(10.0), MS(1), drop_tail(None));
    config.duplicate = 0.1;
    let mut network = Network::new(2);
    let id = network.add_link(&config);
    network.add_source(&source(id, Traffic::Cbr { rate: mbps(8.0), size: Bytes::new(100) }));
    network.run_until(at(2.0));
    let counts = network.link(id).statistics();
    assert!(near(counts.copies.packets, 0.1), "{}", counts.copies.packets);
    let served = counts.served_other.packets + counts.copies.packets;
    assert_eq!(counts.delivered.packets + network.link(id).in_flight(), served);
}

#[test]
fn a_link_may_lose_in_one_direction_only() {
    let lost = |link: &str| {
        let results = run(link, FLOW);
        [0, 1].map(|way| results.summary.links[way].lost)
    };
    let [there, back] = lost("delay = \"5 ms\"\nloss = 0.02");
    assert!(there > 0 && back > 0);
    let [there, back] = lost("delay = \"5 ms\"\nloss = 0.02\nreverse = {}");
    assert!(there > 0 && back == 0, "{there} {back}");
    let [there, back] = lost("delay = \"5 ms\"\nreverse = { loss = 0.02 }");
    assert!(there == 0 && back > 0, "{there} {back}");
}

#[test]
fn damaged_segments_are_as_good_as_lost_and_copies_do_no_harm() {
    let mut config = link(mbps(10.0), MS(10), drop_tail(None));
    (config.duplicate, config.corrupt) = (0.1, 0.01);
    let size = segments(20_000);
    let mut pipe = Pipe::new(window(20), &config, MS(10), |flow| flow.size = Some(size));
    let flow = pipe.run(100.0);
    let counts = pipe.network.link(pipe.forward).statistics();
    assert!(flow.finished.is_some() && flow.goodput == size, "{flow:?}");
    // About one in a hundred was damaged, and sent again; copies cause no retransmission.
    assert!((120..280).contains(&counts.damaged), "{}", counts.damaged);
    assert!(flow.retransmitted.abs_diff(counts.damaged) < 30, "{} {}", flow.retransmitted, counts.damaged);
    assert!(counts.copies.packets.abs_diff(2_000) < 180, "{}", counts.copies.packets);
    // A copy of a damaged segment is damaged, too.
    assert_eq!(flow.received + pipe.network.discarded(), flow.sent + counts.copies.packets);
}

#[test]
fn where_ecn_is_cleared_marks_are_lost() {
    for (ecn, seen) in [(EcnField::Keep, true), (EcnField::Clear, false)] {
        let config = LinkConfig { ecn, ..link(mbps(10.0), MS(5), step(10 * SEGMENT)) };
        let mut pipe = Pipe::new(window(40), &config, MS(5), |flow| flow.ecn = Ecn::Dctcp);
        let flow = pipe.run(5.0);
        assert!(pipe.network.link(pipe.forward).statistics().marked > 1_000);
        assert_eq!(flow.marked > 0, seen, "{flow:?}");
        assert_eq!(flow.echoed > 0, seen, "{flow:?}");
    }
}

#[test]
fn a_queue_behind_a_link_that_clears_ecn_drops() {
    let mut network = Network::new(1);
    let first = network.add_link(&LinkConfig { ecn: EcnField::Clear, ..wire(MS(1)) });
    let narrow = network.add_link(&link(mbps(10.0), MS(5), step(10 * SEGMENT)));
    let back = network.add_link(&wire(MS(5)));
    let config = flow(Kind::Dctcp, first, back);
    let forward = vec![first, narrow];
    network.add_tcp(&headway_sim::TcpConfig { forward, ecn: Ecn::Dctcp, ..config });
    network.run_until(at(5.0));
    let counts = network.link(narrow).statistics();
    assert!(counts.marked == 0 && counts.dropped.packets > 5, "{counts:?}");
}

#[test]
fn jitter_has_the_distribution_that_it_is_told() {
    let distribution = Delays::Normal { mean: MS(4), deviation: MS(1) };
    let jitter = Jitter { distribution, correlation: 0.5 };
    let config = LinkConfig { jitter, reordering: true, ..wire(MS(10)) };
    let ms: Vec<f64> = delays(&config, (0..200_000).map(|number| number * 20_000_000))
        .iter()
        .map(|delay| *delay as f64 / 1e6 - 10.0)
        .collect();
    let mean = ms.iter().sum::<f64>() / ms.len() as f64;
    let variance = ms.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / ms.len() as f64;
    let both = ms.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / ms.len() as f64;
    assert_near("mean", mean, 4.0, 0.01);
    assert_near("variance", variance, 1.0, 0.02);
    assert_near("correlation", both / variance, 0.5, 0.03);
}
