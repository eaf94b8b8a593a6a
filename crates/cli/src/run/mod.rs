//! `headway run`: a scenario in the simulator, in the Linux stack in virtual time, or in a lab.

pub(crate) mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use headway_core::{Bytes, Duration};
use headway_record::spread;
use headway_scenario::{Change, MOST_DILATION, Scenario};
use headway_uml::network::Wishes;
use headway_worlds::{
    Cancellation, Event, Folder, Manifest, Options, Outcome, Report, STEPS, UmlOptions, World,
};

use crate::exit::{Code, Failed};
use crate::out::{say, tell};
use crate::progress::Progress;
use crate::uml::Building;

/// Runs a scenario: a network, its flows and its traffic, as a TOML file describes them.
///
/// The simulator (sim) runs it in virtual time, and so does the network stack of Linux itself (uml), in a kernel that runs as a
/// program; in both the same seed gives the same bytes, whatever the number of jobs. The lab runs it with this
/// host's TCP on an emulated path in real time, if it is two hosts with one bottleneck between them. A folder receives the
/// summary, every flow and link, time series, the truth of what was free, and a page of figures.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headway run scenarios/dumbbell-cubic.toml --on sim\n  \
    headway run scenarios/dumbbell-cubic.toml --on lab --set flow.0.count=2 --set \"link.1.rate=50 Mb/s\"\n  \
    headway run scenarios/ls-dctcp.toml --on lab --dilate 10\n  \
    headway run scenarios/red-dctcp.toml --on sim --repeat 10 --jobs 2\n  \
    headway run scenarios/dumbbell-cubic.toml --on uml --pcap\n  \
    headway run scenarios/iperf3.toml --on uml\n\n\
    The exit code is 1 when a program of the scenario fails; its results are written nevertheless.\n\
    What a file may say: docs/simulate.md; how the kernel's world is built: docs/uml.md.")]
pub(crate) struct RunArgs {
    /// Scenario (TOML).
    file: PathBuf,
    /// Where to run it.
    #[arg(long, value_parser = world(), value_name = "WORLD")]
    on: World,
    /// Seed of everything random; default: the one in the file.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Sets a value of the scenario, such as `link.0.rate=50 Mb/s` or `flow.1.controller=reno`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Runs everything slower by this factor: rates divided, times multiplied, ratios the same; for --on lab, whose timers are
    /// the more exact the slower things are.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DILATION)), value_name = "N")]
    dilate: u32,
    /// Runs so many times, with consecutive seeds, and sums up.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    repeat: u32,
    /// Runs in virtual time at the same time; results do not depend on it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    jobs: u32,
    /// Memory that all jobs together may take; default: three quarters of what is available.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// With --on uml: compiles the kernel module in this folder and loads it; may be repeated.
    #[arg(long, value_name = "DIR")]
    module: Vec<PathBuf>,
    /// With --on uml: writes the packets that each link sends into a pcap file with nanoseconds.
    #[arg(long)]
    pcap: bool,
    /// With --on uml: leaves segmentation and receive offloads on.
    #[arg(long)]
    offloads: bool,
    /// With --on uml: a kernel with its own checks (KASAN, lockdep), many times slower.
    #[arg(long)]
    debug: bool,
    /// With --on uml: the longest real time for which virtual time may stand still; default 2 min.
    #[arg(long, value_name = "TIME")]
    patience: Option<Duration>,
    /// The congestion controller of all flows, in place of those in the file; their ECN becomes what it needs.
    ///
    /// With --on uml also the name of one that only the kernel or a module has.
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// Folder of the results; default `results/NAME-WORLD`.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the summary as JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Write into the folder even if it holds other things.
    #[arg(long)]
    force: bool,
}

/// The end of a flow in a lab: a hidden command that runs in a node, sends or receives, and reports.
#[derive(Args, Debug)]
pub(crate) struct EndpointArgs {
    /// What to do, as JSON.
    plan: String,
}

pub(crate) fn endpoint(args: &EndpointArgs) -> Result<(), Failed> {
    Ok(headway_worlds::endpoint(&args.plan)?)
}

/// Does what `headway run --on uml` wants done inside the kernel that it has started.
#[derive(Args, Debug)]
pub(crate) struct GuestArgs {}

pub(crate) fn guest(_args: &GuestArgs) -> Result<(), Failed> {
    Ok(headway_worlds::guest()?)
}

/// Reads the name of a world.
pub(crate) fn world() -> impl TypedValueParser<Value = World> {
    PossibleValuesParser::new(World::ALL.map(World::name)).try_map(|name| name.parse::<World>())
}

impl RunArgs {
    fn uml(&self) -> UmlOptions {
        let default = UmlOptions::default();
        UmlOptions {
            modules: self.module.clone(),
            debug: self.debug,
            wishes: Wishes { offloads: self.offloads, capture: self.pcap },
            patience: self.patience.map_or(default.patience, Duration::to_std),
        }
    }

    /// The scenario with all changes, and these.
    fn scenario(&self, text: &str) -> anyhow::Result<(Scenario, Vec<Change>)> {
        let scenario = Scenario::parse(text, &self.file, &self.set)?;
        let Some(name) = &self.controller else { return Ok((scenario, self.set.clone())) };
        let others = headway_worlds::controller_changes(name, self.on, &scenario)?;
        let set = [self.set.clone(), others].concat();
        Ok((Scenario::parse(text, &self.file, &set)?, set))
    }

    pub(crate) fn json(&self) -> bool {
        self.json
    }
}

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failed> {
    let text = headway_input::text(&args.file, headway_input::SCENARIO)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let (scenario, set) = args.scenario(&text)?;
    let scenario = scenario.dilated(args.dilate)?;
    let first = args.seed.unwrap_or(scenario.seed);
    let seeds: Vec<u64> = (0..u64::from(args.repeat)).map(|index| first.wrapping_add(index)).collect();
    let default = || PathBuf::from("results").join(format!("{}-{}", scenario.name, args.on));
    let path = args.output.clone().unwrap_or_else(default);
    let folder = Folder::open(&path, args.force)?;
    let report = reporter(seeds.len() as u64);
    let options = Options {
        jobs: args.jobs,
        memory: args.memory,
        uml: args.uml(),
        cancellation: interruption()?,
        report: Some(&*report),
        ..Options::default()
    };
    let outcomes = headway_worlds::run_all(&scenario, args.on, &seeds, &options)?;
    drop(report);
    let partial = outcomes.len() < seeds.len() || outcomes.iter().any(|run| run.results.summary.partial);
    let manifest =
        Manifest { scenario: &text, set: &set, dilation: args.dilate, world: args.on, repeat: args.repeat };
    folder.write(&manifest, &outcomes, partial)?;
    print(args, &outcomes, &path)?;
    let failed = outcomes.iter().any(|run| run.failures().next().is_some());
    Ok(match (partial, failed) {
        (true, _) => Code::Interrupted.into(),
        (false, true) => Code::Other.into(),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn print(args: &RunArgs, outcomes: &[Outcome], path: &Path) -> anyhow::Result<()> {
    let summaries: Vec<_> = outcomes.iter().map(|run| run.results.summary.clone()).collect();
    if args.json {
        let value = match &summaries[..] {
            [one] if args.repeat == 1 => serde_json::to_value(one)?,
            all => serde_json::json!({ "runs": all, "spread": spread(all) }),
        };
        say!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    match &summaries[..] {
        [one] if args.repeat == 1 => say!("{}", table::summary(one)),
        all => say!("{}", table::spread(&spread(all))),
    }
    for run in outcomes {
        let summary = &run.results.summary;
        if let Some(trouble) = &run.trouble {
            say!("Seed {} does not count: {trouble}", summary.seed);
        }
        for failure in run.failures() {
            say!("Seed {}: {failure}", summary.seed);
        }
        if summary.partial {
            let seconds = (summary.warmup_ns + summary.measured_ns) as f64 / 1e9;
            say!("Interrupted: seed {} ran only {seconds:.1} s.", summary.seed);
        }
    }
    if outcomes.len() < args.repeat as usize {
        say!("Interrupted: {} of {} runs.", outcomes.len(), args.repeat);
    }
    say!("results: {}", path.display());
    Ok(())
}

/// Shows the progress of `runs` runs, and of the kernel's build if there has to be one.
pub(crate) fn reporter(runs: u64) -> Box<Report<'static>> {
    let progress = Progress::new(STEPS * runs);
    let building = Building::default();
    Box::new(move |event| match event {
        Event::Begins(what) => progress.say(what.to_owned()),
        Event::Advanced(steps) => progress.advance(steps),
        Event::Builds(now) => building.show(now),
        Event::Repeats(reason) => tell!("repeated, because {reason}"),
        _ => {}
    })
}

/// Is cancelled by Ctrl-C or SIGTERM; a second one ends the program at once.
pub(crate) fn interruption() -> anyhow::Result<Cancellation> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let code = i32::from(Code::Interrupted.number());
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted.into())
}
