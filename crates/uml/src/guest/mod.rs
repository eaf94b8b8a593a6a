//! The program that runs in the guest: it builds the network, sends and receives, and records the results.
//!
//! It is the guest's init process and the only program unless the scenario names others. It has a single
//! thread, because context switches are slow in the guest.

mod capture;
mod card;
mod device;
mod events;
mod flow;
mod line;
mod middlebox;
mod netlink;
mod option;
mod program;
mod records;
mod red;
mod route;
mod router;
mod source;
mod system;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::LazyLock;

use headway_units::Duration;

use crate::plan::{Plan, PlannedProgram};
use crate::report::{End, Line, Snapshot};
use capture::Capture;
use events::{Endpoint, Event, Events};
use flow::Flow;
use program::Program;
use records::Records;
use source::Source;

/// The parameter on the kernel's command line that makes this program a guest.
pub(crate) const SIGN: &str = "HEADWAY_GUEST";
/// The host's folder as the guest's kernel sees it: its working directory. The real path must not appear on
/// the command line, which is mixed into the kernel's random numbers.
pub(crate) const FOLDER: &str = "/proc/self/cwd";
/// Name of the init program in the host's folder.
pub(crate) const PROGRAM: &str = "init";
/// Name of the plan in the host's folder.
pub(crate) const PLAN: &str = "plan.json";
/// Name of the report in the host's folder.
pub(crate) const REPORT: &str = "report.jsonl";
/// Prefix of console lines that report progress, in nanoseconds of virtual time.
pub(crate) const PROGRESS: &str = "headway: at ";
/// Most progress lines printed in a run.
const PROGRESS_LINES: i64 = 200;

/// What flows and sources send: as much as a flow writes by one call, 4 MiB, more than any datagram.
/// Allocated, because a constant would be as large in the program's file.
static ZEROES: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; 1 << 22]);

/// A fatal error in the guest, as a sentence.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn of(what: String, error: impl Into<std::io::Error>) -> Failure {
        Failure(format!("{what}: {}", error.into()))
    }
}

/// Runs the plan in the host's folder and powers the machine off.
///
/// Returns only if this process is not the init process of a guest, and then immediately.
pub fn main() {
    if std::process::id() != 1 || std::env::var_os(SIGN).is_none() {
        return;
    }
    let place = match system::mount_all(Path::new(FOLDER)) {
        Ok(place) => place,
        Err(Failure(sentence)) => {
            eprintln!("headway: {sentence}");
            system::power_off()
        }
    };
    let report = File::create(place.join(REPORT)).map(BufWriter::new);
    match report {
        Err(error) => eprintln!("headway: cannot write the report: {error}"),
        Ok(mut report) => {
            let ended = run(&place, &mut report);
            let line = match ended {
                Ok(end) => Line::End(end),
                Err(Failure(sentence)) => Line::Failed(sentence),
            };
            if let Err(Failure(sentence)) = tell(&mut report, &line) {
                eprintln!("headway: {sentence}");
            }
            // A write error shows in the report, which then lacks its last line.
            let _ = report.flush();
        }
    }
    system::power_off()
}

fn tell(report: &mut BufWriter<File>, line: &Line) -> Result<(), Failure> {
    let text = serde_json::to_string(line).map_err(|error| Failure(error.to_string()))?;
    writeln!(report, "{text}").map_err(|error| Failure::of("cannot write the report".to_owned(), error))
}

fn run(place: &Path, report: &mut BufWriter<File>) -> Result<End, Failure> {
    let text = std::fs::read_to_string(place.join(PLAN))
        .map_err(|error| Failure::of("cannot read the plan".to_owned(), error))?;
    let plan: Plan =
        serde_json::from_str(&text).map_err(|error| Failure(format!("cannot parse the plan: {error}")))?;
    system::allow_files()?;
    for module in &plan.modules {
        system::load(module)?;
    }
    let nodes = system::build(&plan)?;
    let records = Records::watch(&plan.directions, &nodes)?;
    let middleboxes = middlebox::start(&plan, place, &nodes)?;
    let mut events = Events::new(plan.lead)?;
    let mut flows = Vec::new();
    for (number, flow) in plan.flows.iter().enumerate() {
        flows.push(Flow::listen(number, flow, &nodes, &mut events)?);
        events.at(flow.open - plan.lead, Event::Connect(number));
        events.at(flow.start, Event::Start(number));
        if let Some(stop) = flow.stop {
            events.at(stop, Event::Stop(number));
        }
        if flow.read_rate.is_some() {
            events.at(flow.start, Event::Tick(number, Endpoint::Receiver));
        }
    }
    let mut sources = Vec::new();
    for (number, source) in plan.sources.iter().enumerate() {
        sources.push(Source::new(number, source, &nodes)?);
        events.at(source.start - plan.lead, Event::Source(number));
    }
    let programs = programs(&plan, place, &mut events)?;
    let mut captures = Vec::new();
    for direction in &plan.directions {
        let Some(name) = &direction.capture else { continue };
        let capture = Capture::new(direction, name, &nodes, place)?;
        events.watch(capture.descriptor(), Event::Capture(captures.len()), false)?;
        captures.push(capture);
    }
    events.at(plan.warmup, Event::Warm);
    events.at(Duration::ZERO, Event::Progress);
    for (index, &at) in plan.looks.iter().enumerate() {
        events.at(at, Event::Snapshot(index));
    }
    let rest = if captures.is_empty() { Duration::ZERO } else { capture::DELAY };
    events.at(plan.looks.last().copied().unwrap_or_default() + rest, Event::Over);
    let mut guest = Guest { plan: &plan, nodes, events, flows, sources, programs, captures, records, report };
    guest.run()?;
    let waits = guest.records.waits()?;
    for control in router::records(guest.events.zero())? {
        tell(guest.report, &Line::Control(control))?;
    }
    line::write_counts(&plan, place)?;
    guest.captures.iter_mut().try_for_each(Capture::finish)?;
    for middlebox in middleboxes {
        tell(guest.report, &Line::Middlebox(middlebox.end()?))?;
    }
    Ok(End { waits })
}

/// Creates all programs and schedules their start and stop.
fn programs(plan: &Plan, place: &Path, events: &mut Events) -> Result<Vec<Program>, Failure> {
    program::prepare(&plan.hosts)?;
    let one = |(number, program): (usize, &PlannedProgram)| {
        events.at(program.start, Event::Launch(number));
        events.at(program.stop, Event::Halt(number));
        Program::new(number, program, place)
    };
    plan.programs.iter().enumerate().map(one).collect()
}

/// The running guest.
struct Guest<'a> {
    plan: &'a Plan,
    nodes: Vec<File>,
    events: Events,
    flows: Vec<Flow>,
    sources: Vec<Source>,
    programs: Vec<Program>,
    captures: Vec<Capture>,
    records: Records,
    report: &'a mut BufWriter<File>,
}

impl Guest<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut due = Vec::new();
        let mut over = false;
        while !over || !self.programs.iter().all(Program::is_over) {
            let now = self.events.wait(&mut due)?;
            for event in due.drain(..) {
                over |= event == Event::Over;
                self.handle(event, now)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, now: Duration) -> Result<(), Failure> {
        let Guest { nodes, events, flows, sources, programs, captures, .. } = self;
        match event {
            Event::Snapshot(index) => self.take_snapshot(index),
            Event::Over => Ok(()),
            Event::Warm => self.records.reset(),
            Event::Progress => self.show(now),
            Event::Connect(number) => flows[number].connect(nodes, events),
            Event::Start(number) => flows[number].start(now, events),
            Event::Stop(number) => flows[number].write(now, events),
            Event::Tick(number, end) => flows[number].tick(now, end, events),
            Event::Launch(number) => programs[number].start(nodes, events),
            Event::Halt(number) => {
                programs[number].halt(now, events);
                Ok(())
            }
            Event::Exit(number) => match programs[number].collect(now, events)? {
                Some(end) => tell(self.report, &Line::Program(end)),
                None => Ok(()),
            },
            Event::Flow(number, Endpoint::Listener) => flows[number].accept(events),
            Event::Flow(number, Endpoint::Sender) => flows[number].write(now, events),
            Event::Flow(number, Endpoint::Receiver) => flows[number].read(now, events),
            Event::Source(number) => sources[number].work(now, events),
            Event::Capture(number) => captures[number].work(),
        }
    }

    /// Reports progress and flushes the report, so that the host sees it.
    fn show(&mut self, now: Duration) -> Result<(), Failure> {
        println!("{PROGRESS}{}", now.ns());
        let end = self.plan.looks.last().copied().unwrap_or_default();
        self.events.at(now + Duration::from_ns(end.ns() / PROGRESS_LINES), Event::Progress);
        self.report.flush().map_err(|error| Failure::of("cannot write the report".to_owned(), error))
    }

    fn take_snapshot(&mut self, index: usize) -> Result<(), Failure> {
        let snapshot = Snapshot {
            at: self.plan.looks[index],
            flows: self.flows.iter().map(Flow::counters).collect(),
            directions: self.records.counters()?,
            sources: self.sources.iter().map(Source::counters).collect::<Result<_, _>>()?,
        };
        tell(self.report, &Line::Snapshot(snapshot))
    }
}
