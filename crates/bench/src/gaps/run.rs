//! One run of a mechanism.

use std::time::{Duration as Span, Instant as Deadline};

use anyhow::{Result, bail};
use headway_host::gap;
use headway_net::pacing::Wait;
use headway_units::{Duration, Instant, Rate};

use super::arrivals::Arrivals;
use super::errors::{Errors, by_flow, gaps};
use super::hosts::{INTERFACE, Wire};
use super::load::{Burner, Meter};
use super::udp::{Senders, behind_line};
use super::{CellRuns, Load, Mechanism, PACKET, Plan, Run, tcp};
use crate::accuracy::cells::Watch;

/// Time before gaps count: the first segments of a connection are not paced.
const WARM_UP: Duration = Duration::from_ms(300);
/// A sender goes on for this long after the run, so that it ends by being stopped.
const BEYOND: Duration = Duration::from_ms(1_000);
/// Pause between two reads of what has arrived, so that reading takes little from the sender.
const READ: Span = Span::from_millis(10);
/// A run during which other programs have more than this share of a processor is void.
const DISTURBED: f64 = 0.05;

/// Runs a row as often as wanted.
pub(super) fn cell(plan: &Plan, time: Duration, watch: &Watch) -> Result<CellRuns> {
    let mut cell = CellRuns::new(plan);
    if let Some(model) = plan.mechanism.model() {
        (cell.runs, ..) = watch.repeat(Ok, |seed| Ok(model_run(model, plan, time, seed)))?;
        return Ok(cell);
    }
    let wire = Wire::new()?;
    if plan.mechanism == Mechanism::TcpFq && !tcp::install_fq(&wire) {
        cell.failures.push("this kernel has no queue discipline fq".to_owned());
        return Ok(cell);
    }
    (cell.runs, cell.void_runs, cell.failures) = watch.repeat(|_| Ok(()), |()| once(&wire, plan, time))?;
    Ok(cell)
}

/// Returns what a model of the simulator does.
fn model_run(model: gap::Mechanism, plan: &Plan, time: Duration, seed: u64) -> Option<Run> {
    let gap = plan.gap();
    let packets = time.ns() / gap.ns();
    let schedule = |flow: u32| {
        let first = gap * i64::from(flow) / i64::from(plan.flows);
        (0..packets).map(|packet| Instant::ZERO + first + gap * packet).collect()
    };
    let schedules: Vec<Vec<Instant>> = (0..plan.flows).map(schedule).collect();
    let departures = model.departures(plan.line, PACKET, &schedules, seed);
    Some(Run::new(Errors::of(gaps(&departures), gap)?, plan, time, None))
}

enum Source {
    Tcp(tcp::Flows),
    Udp(Senders),
}

impl Source {
    fn start(wire: &Wire, plan: &Plan, time: Duration) -> Result<Source> {
        let gap = plan.gap();
        let packets = ((time + WARM_UP + BEYOND).ns() / gap.ns()) as usize;
        let threads = |wait| Senders::threads(wire, wait, plan.flows, gap, packets);
        Ok(match plan.mechanism {
            Mechanism::Spin => Source::Udp(threads(Wait::Spin)?),
            Mechanism::Timer => Source::Udp(threads(Wait::Sleep)?),
            Mechanism::Pause => Source::Udp(Senders::frames(wire, plan.line, plan.flows, gap, packets)?),
            tcp => Source::Tcp(tcp::Flows::start(wire, tcp, plan.line, plan.flows, gap)?),
        })
    }

    fn stop(self) -> Result<()> {
        match self {
            Source::Tcp(flows) => flows.stop()?,
            Source::Udp(senders) => senders.stop()?,
        }
        Ok(())
    }
}

/// Runs once; `None` if other programs disturbed it.
fn once(wire: &Wire, plan: &Plan, time: Duration) -> Result<Option<Run>> {
    let burner = if plan.load == Load::Busy { Some(Burner::start()?) } else { None };
    let mut arrivals = wire.hop.run(|| Ok(Arrivals::open(INTERFACE)?))?;
    let source = Source::start(wire, plan, time)?;
    watch_arrivals(&mut arrivals, WARM_UP);
    let (mut seen, _) = arrivals.take();
    let begin = seen.last().map(|arrival| arrival.at);
    let meter = Meter::start(burner.as_ref())?;
    watch_arrivals(&mut arrivals, time);
    let taken = meter.end(burner.as_ref())?;
    let (more, unread) = arrivals.take();
    seen.extend(more);
    let stopped = source.stop();
    if let Some(burner) = burner {
        burner.stop();
    }
    stopped?;
    if taken.others > DISTURBED || unread > 0 {
        return Ok(None);
    }
    // What the line holds in advance counts, so it begins with the first frame.
    if plan.mechanism.fills_line() {
        seen = behind_line(plan.line, &seen);
    }
    seen.retain(|arrival| begin.is_some_and(|begin| (begin..begin + time).contains(&arrival.at)));
    let Some(errors) = Errors::of(gaps(&by_flow(&seen)), plan.gap()) else { bail!("no packet arrived") };
    Ok(Some(Run::new(errors, plan, time, Some(taken.here))))
}

/// Reads what arrives for some time.
fn watch_arrivals(arrivals: &mut Arrivals, time: Duration) {
    let end = Deadline::now() + time.to_std();
    while Deadline::now() < end {
        std::thread::sleep(READ);
        arrivals.read();
    }
}

impl Run {
    fn new(errors: Errors, plan: &Plan, time: Duration, cpu: Option<f64>) -> Run {
        let rate = Rate::of(PACKET * (errors.gaps as u64 + u64::from(plan.flows)), time).unwrap_or_default();
        Run { errors, rate_mbps: rate.mbps(), cpu_percent: cpu.map(|share| share * 100.0) }
    }
}
