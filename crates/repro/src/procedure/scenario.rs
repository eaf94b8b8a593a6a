//! The procedure as a scenario, which runs in every world.

use std::fmt::Write as _;

use headway_record::{Interval as Seen, Results, TcpInterval};
use headway_traffic::channel::Redrawn;
use headway_units::{Duration, Instant, WIRE_OVERHEAD};
use toml::Value;

use super::{CAPACITY, END, FLOWS, Interval, LAST, PER_SECOND, RTT, Trace, mbps, times};
use crate::closed_loop::segments_per_ack;
use crate::context::Error;
use crate::job::Job;
use crate::study::Router;

/// How often queue and windows are looked at: the shortest interval of the lab, a little longer than a packet takes.
const STEP: Duration = Duration::from_ms(10);
/// Steps in an interval of the averages.
const STEPS: usize = 10;
/// The narrow link in results: worlds report different links.
const NARROW: &str = "router->receivers";
/// Wire bytes and IP bytes of a full packet.
const WIRE: u64 = 1500 + WIRE_OVERHEAD.get();
const IP: u64 = 1500;

/// Runs a variant as a scenario in a world, unless the context has kept the run; `name` is that of the variant.
pub(crate) fn run_in(job: &Job<'_>, variant: &Router, name: &str, run: usize) -> Result<Trace, Error> {
    let seed = job.seed(run);
    let evaluate = |results: &Results| trace(variant, seed, results);
    Ok(job.run_scenario(text(variant, seed), name, run, evaluate)?.with_law(variant))
}

/// Returns the scenario file of a variant.
fn text(variant: &Router, seed: u64) -> String {
    debug_assert!(variant.line.is_none(), "a router in a scenario knows the rate of its link");
    let mut text = format!(
        "duration = \"{} ns\"\ninterval = \"{} ns\"\nmtu = {IP}\n\
         [[link]]\nfrom = \"senders\"\nto = \"router\"\nduplex = false\ndelay = \"{} ns\"\n\
         [[link]]\nfrom = \"router\"\nto = \"receivers\"\nduplex = false\ndelay = \"{} ns\"\nrate = \"{} b/s\"\nloss = {:?}\nqueue = {}\n",
        END.ns(),
        STEP.ns(),
        (RTT / 4).ns(),
        (RTT / 4).ns(),
        CAPACITY.bps(),
        variant.loss,
        queue(variant),
    );
    if let Some(Redrawn { least, every }) = variant.redrawn {
        // A scenario draws the same capacities from this seed.
        let _ = writeln!(text, "redrawn = {{ least = {least:?}, every = \"{} ns\" }}", every.ns());
    }
    if let Some(outages) = &variant.outages {
        let outages = Value::try_from(outages).expect("what was read from a file can be written to one");
        let _ = writeln!(text, "outages = {outages}");
    }
    let back = (RTT / 2).ns();
    let _ = write!(
        text,
        "[[link]]\nfrom = \"receivers\"\nto = \"senders\"\nduplex = false\ndelay = \"{back} ns\"\n"
    );
    let acks = segments_per_ack(variant.controller.is_explicit());
    let mut flow = |start: f64, rest: &str| {
        let _ = write!(
            text,
            "[[flow]]\nfrom = \"senders\"\nto = \"receivers\"\ncontroller = \"{}\"\nack-every = {acks}\nstart = \"{start:?} s\"\n{rest}\n",
            variant.controller,
        );
    };
    for (number, (start, stop)) in times(seed).into_iter().enumerate() {
        let rate = variant.application.filter(|_| number == 0);
        let rate = rate.map_or(String::new(), |rate| format!("application-rate = \"{} b/s\"\n", rate.bps()));
        flow(start, &format!("{rate}stop = \"{stop:?} s\""));
    }
    flow(LAST.secs_f64(), "size = \"1 B\"");
    text
}

/// Returns the queue of a variant as a scenario writes it.
fn queue(variant: &Router) -> String {
    let queue = Value::try_from(&variant.queue).expect("what was read from a file can be written to one");
    match variant.queue.explicit() {
        // The router believes in the full capacity, unless its parameters say otherwise.
        Some((_, config)) if config.capacity.is_none() => {
            let capacity = format!("{{ capacity = \"{} b/s\",", CAPACITY.bps());
            queue.to_string().replacen('{', &capacity, 1)
        }
        _ => queue.to_string(),
    }
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

/// Returns window over smoothed RTT, and no more than a sender is paced at, in Mb/s of wire bytes: the kernel's senders of
/// RCP have a window above their rate, and are paced.
fn rate(tcp: &TcpInterval) -> f64 {
    let window = tcp.srtt.map_or(0.0, |srtt| mbps(tcp.cwnd.into(), srtt));
    tcp.pacing.map_or(window, |pace| window.min(pace.mbps()))
}

/// Returns the IP bytes that wait: worlds count the packet in transmission, whole or what remains of it.
fn waiting(seen: &Seen) -> u64 {
    seen.queue.get().saturating_sub(1) / WIRE * IP
}
