//! Who chooses: `headway select`, rivals that make transfers, and those that know what they need to.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::Context as _;
use headway_lab::Lab;
use headway_scenario::SelectRival;
use headway_select::Settings;
use headway_sim::select::{Contestant, GET, IPERF, LONGEST_GET, Timeline, wire};
use headway_uml::run_dir::{self, RunDir};
use headway_units::{Bytes, Duration, Instant};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::Stage;
use super::network::Network;
use super::transfer::transfer;
use crate::error::{Error, bail};
use crate::{process, uml};

/// Who chooses among the paths of one network.
pub(super) enum Chooser {
    /// Who needs no packets to know.
    Told(Timeline),
    /// Who makes transfers over all paths: how often, and each how long or how large at most.
    Transfers { every: Duration, size: Option<Bytes>, longest: Duration },
    /// `headway select`, with `headway serve` at the far end.
    Select(Select),
}

/// The processes of `headway select`.
pub(super) struct Select {
    command: Command,
    serve: Child,
    /// Holds its file.
    _folder: RunDir,
}

impl Drop for Select {
    fn drop(&mut self) {
        // Both fail only if it has exited.
        let _ = self.serve.kill();
        let _ = self.serve.wait();
    }
}

/// Prepares all who choose.
pub(super) fn prepare(lab: &Lab, networks: &[Network], program: &Path) -> Result<Vec<Chooser>, Error> {
    let one = |network: &Network| match network.contestant {
        Contestant::Selector(settings) => Ok(Chooser::Select(Select::new(lab, network, &settings, program)?)),
        Contestant::Rival(SelectRival::Get) => {
            Ok(Chooser::Transfers { every: GET.1, size: Some(GET.0), longest: LONGEST_GET })
        }
        Contestant::Rival(SelectRival::Iperf) => {
            Ok(Chooser::Transfers { every: IPERF.1, size: None, longest: IPERF.0 })
        }
        told => Ok(Chooser::Told(told.run(&network.world))),
    };
    networks.iter().map(one).collect()
}

impl Chooser {
    /// Returns what is chosen from the beginning on: all of it by whoever knows, else the first path.
    pub(super) fn begin(&mut self) -> Timeline {
        match self {
            Chooser::Told(timeline) => std::mem::take(timeline),
            _ => Timeline { chosen: vec![(Instant::ZERO, 0)], ..Timeline::default() },
        }
    }

    /// Chooses until the run ends.
    pub(super) fn run(&mut self, stage: &Stage<'_>) -> Result<(), Error> {
        match self {
            Chooser::Told(_) => Ok(()),
            Chooser::Transfers { every, size, longest } => by_transfers(stage, *every, *size, *longest),
            Chooser::Select(select) => select.run(stage),
        }
    }
}

/// Makes transfers over all paths at regular times, and chooses the fastest by more than the usual tolerance.
fn by_transfers(
    stage: &Stage<'_>,
    every: Duration,
    size: Option<Bytes>,
    longest: Duration,
) -> Result<(), Error> {
    let tolerance = 1.0 + Settings::default().tolerance;
    let world = &stage.network.world;
    let mut at = Instant::ZERO + Duration::from_ms(1_000);
    while stage.wait(at) {
        let mut speeds = vec![0.0; world.paths.len()];
        for (path, speed) in speeds.iter_mut().enumerate().filter(|(path, _)| world.is_up(*path, at)) {
            let (bytes, took) = transfer(stage, path, size, longest)?;
            // Of a GET without the time to the first byte.
            let counted = if size.is_some() { took - world.rtt(path) } else { took };
            *speed = bytes.get() as f64 / counted.secs_f64().max(1e-3);
            let now = stage.now();
            stage.with(|timeline| timeline.spent.push((now, path, wire(bytes))));
        }
        let (now, here) = (stage.now(), stage.chosen());
        let best = (0..speeds.len()).max_by(|one, other| speeds[*one].total_cmp(&speeds[*other]));
        if let Some(best) = best.filter(|best| speeds[*best] > tolerance * speeds[here]) {
            stage.with(|timeline| timeline.choose(now, best));
        }
        at += every;
    }
    Ok(())
}

impl Select {
    /// Starts the far end, and writes the file.
    fn new(lab: &Lab, network: &Network, settings: &Settings, program: &Path) -> Result<Select, Error> {
        let mut command = lab.command(&network.server, program, ["serve", "--json"])?;
        process::die_with_parent(&mut command);
        process::prioritise(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut serve = command.spawn()?;
        let mut lines = BufReader::new(serve.stdout.take().context("no output")?);
        // It listens when it has said so. What it says of its sessions must be read, too.
        lines.read_line(&mut String::new())?;
        thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let folder = run_dir::folder(&uml::cache()?).context("cannot write into the cache")?;
        let file = folder.path().join("paths.toml");
        std::fs::write(&file, text(lab, network, settings)?).context("cannot write into the cache")?;
        let socket = folder.path().join("socket");
        let arguments = ["select".into(), file, "--json".into(), "--socket".into(), socket];
        let mut command = lab.command::<PathBuf>(&network.home, program, arguments)?;
        process::die_with_parent(&mut command);
        process::prioritise(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Select { command, serve, _folder: folder })
    }

    /// Runs it until the end, and notes what it says.
    fn run(&mut self, stage: &Stage<'_>) -> Result<(), Error> {
        let mut child = self.command.spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?);
        let pid = Pid::from_raw(child.id() as i32);
        let ended = thread::scope(|scope| {
            scope.spawn(|| {
                stage.wait(stage.network.world.end + LONGEST_GET);
                // Fails only if it has exited, and then it is not waited for yet.
                let _ = kill(pid, Signal::SIGTERM);
            });
            let mut totals = vec![0; stage.network.world.paths.len()];
            let noted = lines.lines().try_for_each(|line| {
                note(stage, &serde_json::from_str(&line?)?, &mut totals);
                Ok::<_, Error>(())
            });
            let is_over = stage.has_ended();
            stage.end();
            noted.map(|()| is_over)
        })?;
        let mut errors = String::new();
        // If this fails, the message just has less detail.
        let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
        child.wait()?;
        if !ended {
            bail!("`headway select` has ended too early: {}", errors.trim());
        }
        Ok(())
    }
}

/// Returns the file of `headway select`.
fn text(lab: &Lab, network: &Network, settings: &Settings) -> Result<String, Error> {
    let ms = |time: Duration| format!("\"{} ms\"", time.ns() / 1_000_000);
    let mut text = format!(
        "strategy = \"{}\"\nlatency-floor = {}\ntolerance = {:?}\ninterval = {}\nmax-bytes-per-hour = \"{} B\"\n",
        settings.strategy.name(),
        ms(settings.latency_floor),
        settings.tolerance,
        ms(settings.interval),
        settings.max_bytes_per_hour.get()
    );
    if let Some(transfer) = settings.transfer {
        text += &format!("transfer = \"{} B\"\n", transfer.get());
    }
    if let Some(month) = settings.max_bytes_per_month {
        text += &format!("max-bytes-per-month = \"{} B\"\n", month.get());
    }
    for path in 0..network.world.paths.len() {
        let link = network.link(path);
        let server = lab.interface(&network.server, link)?.v4;
        let device = &lab.interface(&network.home, link)?.name;
        text += &format!(
            "[[path]]\nname = \"{path}\"\nhosts = [\"{server}\"]\ninterface = \"{device}\"\nnext-hop = \"{server}\"\n"
        );
    }
    Ok(text)
}

/// Notes a decision, or what was sent.
fn note(stage: &Stage<'_>, said: &Value, totals: &mut [u64]) {
    let ns = said["at_unix_ns"].as_u64().unwrap_or_default();
    let at = Instant::ZERO + (Instant::from_ns(ns) - stage.begin).max(Duration::ZERO);
    let path = |key: &str| said[key].as_str().and_then(|name| name.parse::<usize>().ok());
    match said["event"].as_str() {
        Some("decision") => {
            let (Some(after), Some(before)) = (path("path"), path("before")) else { return };
            if let (Some("better"), Some(odds)) = (said["why"].as_str(), said["odds"].as_f64()) {
                let free = |path: usize| stage.network.world.free(path, at).bps_f64();
                let is_right = free(after) > (1.0 + stage.network.spec.tolerance) * free(before);
                stage.with(|timeline| timeline.claims.push((odds, is_right)));
            }
            stage.with(|timeline| timeline.choose(at, after));
        }
        Some("state") => {
            let paths = said["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
            for (path, (state, before)) in paths.iter().zip(totals).enumerate() {
                let total = state["total_bytes"].as_u64().unwrap_or(*before);
                let sent = Bytes::new(total.saturating_sub(std::mem::replace(before, total)));
                stage.with(|timeline| timeline.spent.push((at, path, sent)));
            }
            let asked = ["questions", "measurements"].map(|key| said[key].as_u64().unwrap_or_default());
            stage.with(|timeline| timeline.asked = asked);
        }
        _ => {}
    }
}
