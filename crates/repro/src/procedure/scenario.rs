//! The procedure as a scenario, which runs in every world.

use headway_queue::QueueSpec;
use headway_record::{Interval as Seen, Results, TcpInterval};
use headway_scenario::{FlowSpec, LinkSpec, Scenario};
use headway_units::{Bytes, Duration, Instant, WIRE_OVERHEAD};
use toml::Value;

use super::{CAPACITY, END, FLOWS, Interval, LAST, PER_SECOND, RTT, Trace, mbps, times};
use crate::closed_loop::segments_per_ack;
use crate::context::Error;
use crate::job::Job;
use crate::study::Router;

/// How often queue and windows are looked at: the shortest interval of the lab, a little longer
/// than a packet takes.
const STEP: Duration = Duration::from_ms(10);
/// Steps in an interval of the averages.
const STEPS: usize = 10;
/// The narrow link in results: worlds report different links.
const NARROW: &str = "router->receivers";
/// Wire bytes and IP bytes of a full packet.
const WIRE: u64 = 1500 + WIRE_OVERHEAD.get();
const IP: u64 = 1500;

/// Runs a variant as a scenario in a world, unless the context has kept the run; `name` is
/// that of the variant.
pub(crate) fn run_in(job: &Job<'_>, variant: &Router, name: &str, run: usize) -> Result<Trace, Error> {
    let seed = job.seed(run);
    let evaluate = |results: &Results| trace(variant, seed, results);
    Ok(job.run_scenario(&scenario(variant, seed), name, run, evaluate)?.with_law(variant))
}

/// Returns the scenario of a variant.
fn scenario(variant: &Router, seed: u64) -> Scenario {
    debug_assert!(variant.line.is_none(), "a router in a scenario knows the rate of its link");
    let link = |from, to, delay| LinkSpec { duplex: false, delay, ..LinkSpec::new(from, to) };
    let narrow = LinkSpec {
        rate: Some(CAPACITY),
        loss: variant.loss,
        queue: Some(queue(variant)),
        // A scenario draws the same capacities from this seed.
        redrawn: variant.redrawn,
        outages: variant.outages.clone(),
        ..link("router", "receivers", RTT / 4)
    };
    let links = vec![link("senders", "router", RTT / 4), narrow, link("receivers", "senders", RTT / 2)];
    let flow = FlowSpec {
        ack_every: segments_per_ack(variant.controller.is_explicit()),
        ..FlowSpec::new("senders", "receivers", variant.controller)
    };
    let stay = times(seed).into_iter().enumerate().map(|(number, (start, stop))| FlowSpec {
        application_rate: variant.application.filter(|_| number == 0),
        start: Duration::from_secs_f64(start),
        stop: Some(Duration::from_secs_f64(stop)),
        ..flow.clone()
    });
    let last = FlowSpec { start: LAST, size: Some(Bytes::new(1)), ..flow.clone() };
    let flow = stay.chain([last]).collect();
    Scenario { duration: END, interval: STEP, flow, ..Scenario::of(links) }
}

/// Returns the queue of a variant. Its router believes in the full capacity, unless its
/// parameters say otherwise.
fn queue(variant: &Router) -> QueueSpec {
    let queue = Value::try_from(&variant.queue);
    let mut queue = queue.expect("what was read from a file can be written to one");
    let (explicit, keys) = (variant.queue.explicit(), queue.as_table_mut());
    if let (Some((_, config)), Some(keys)) = (explicit, keys)
        && config.capacity.is_none()
    {
        keys.insert("capacity".to_owned(), Value::String(format!("{} b/s", CAPACITY.bps())));
    }
    queue.try_into().expect("a queue with a capacity")
}

/// Converts the results of a run.
fn trace(variant: &Router, seed: u64, results: &Results) -> Trace {
    let mut trace = Trace::new(variant, seed, STEP);
    let series = &results.series;
    let narrow = series.names.iter().position(|name| name == NARROW).expect("a link of the scenario");
    let links = &series.links[narrow];
    trace.queue = links.iter().map(waiting).collect();
    let times = series.ends.iter().map(|end| *end - Instant::ZERO).enumerate();
    trace.rates = times
        .map(|(step, now)| {
            std::array::from_fn(|flow| {
                let state = series.tcp.get(flow).map(|tcp| &tcp[step]);
                let state = state.filter(|_| trace.sends(flow, now));
                state.map_or(0.0, rate)
            })
        })
        .collect();
    let mut sum = Interval::default();
    for (index, steps) in links.chunks(STEPS).enumerate() {
        let begin = index * STEPS;
        for flow in 0..FLOWS {
            let goodput = &series.goodput[flow][begin..begin + steps.len()];
            sum.delivered[flow] += goodput.iter().map(|bytes| bytes.get()).sum::<u64>();
        }
        for step in steps {
            sum.left += step.measured.get();
            sum.possible += step.capacity.unwrap_or_default().get();
            sum.dropped += step.dropped;
        }
        trace.intervals.push(sum.clone());
    }
    debug_assert_eq!(trace.intervals.len(), END.secs_f64() as usize * PER_SECOND);
    trace.records.clone_from(&results.control);
    trace
}

/// Returns window over smoothed RTT, and no more than a sender is paced at, in Mb/s of wire bytes: the
/// kernel's senders of RCP have a window above their rate, and are paced.
fn rate(tcp: &TcpInterval) -> f64 {
    let window = tcp.srtt.map_or(0.0, |srtt| mbps(tcp.cwnd.into(), srtt));
    tcp.pacing.map_or(window, |pace| window.min(pace.mbps()))
}

/// Returns the IP bytes that wait: worlds count the packet in transmission, whole or what remains of it.
fn waiting(seen: &Seen) -> u64 {
    seen.queue.get().saturating_sub(1) / WIRE * IP
}
