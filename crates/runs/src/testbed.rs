//! An emulated path with a server at one end, for measurements scored against the truth.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use headway_lab::{Coalescing, Direction, Lab, Life, Truth};
use headway_scenario::{Buffer, BufferSize, HostSpec, LinkSpec, Scenario, TrafficSpec};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};
use headway_worlds::process::{die_with_parent, prioritise};
use headway_worlds::{Background, TcpFlows, disturbed};
use serde::Serialize;

use headway_program::lines::{MeasureLine, PathLine};
use headway_program::time::now;

/// A lab with a server, and perhaps TCP flows; dropping this ends all of them.
pub struct Testbed {
    /// The program `headway`.
    headway: PathBuf,
    /// The flows of the hosts that count as other traffic.
    background: Option<Background>,
    lab: Lab,
    server: Child,
    address: String,
}

/// A measurement, and the true available bandwidth of its path while it ran: the least of its links.
#[derive(Clone, Debug, Serialize)]
pub struct Scored {
    /// What it answered.
    #[serde(flatten)]
    pub line: MeasureLine,
    /// The available bandwidth while the streams that the answer rests on were sent.
    pub truth_bps: u64,
    /// Capacity of the narrow link in that time.
    pub capacity_truth_bps: u64,
    /// Packets of cross traffic dropped only because probes were in the queue.
    pub cross_displaced: u64,
    /// Whether the machine kept the emulator from delivering on time, which voids the run.
    pub disturbed: bool,
}

impl Scored {
    /// Returns estimate minus truth, as a share of the capacity; `None` without an estimate.
    pub fn error(&self) -> Option<f64> {
        let estimate = self.line.available_bps? as f64;
        Some((estimate - self.truth_bps as f64) / self.capacity_truth_bps as f64)
    }

    /// Whether the interval contains the truth; a missing upper end counts as infinity.
    pub fn covered(&self) -> bool {
        self.line.available_low_bps.is_some_and(|low| low <= self.truth_bps)
            && self.line.available_high_bps.is_none_or(|high| self.truth_bps <= high)
    }
}

impl Testbed {
    /// Starts a lab with a network, under a name unique to this process, and in the node `server` the command
    /// `serve` of the program `headway`. The lab itself is run by this program, which must call
    /// [`helper::run`](crate::helper::run).
    ///
    /// # Errors
    /// When the host allows no lab, or the server does not start.
    pub fn new(headway: PathBuf, network: &Scenario, purpose: &str) -> anyhow::Result<Testbed> {
        let name = format!("{purpose}-{}", std::process::id());
        let lab = Lab::up(network, &name, Life::Owned)?;
        let address = lab.v4("server")?.to_string();
        let mut server = lab.command("server", headway.clone(), ["serve", "--bind", &address, "--json"])?;
        die_with_parent(&mut server);
        let mut server = server
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start `headway serve`")?;
        if let Err(error) = wait_until_listening(&mut server) {
            let _ = server.kill();
            let _ = server.wait();
            return Err(error);
        }
        Ok(Testbed { headway, background: None, lab, server, address })
    }

    /// Starts TCP flows between nodes. From now on TCP counts as traffic of others: that of these flows, and
    /// the little that a measurement itself exchanges with the server.
    ///
    /// # Errors
    /// When a flow does not start.
    pub fn start_flows(&mut self, flows: &[TcpFlows]) -> anyhow::Result<()> {
        self.background = Some(Background::start(&self.lab, flows)?);
        Ok(())
    }

    /// Returns the lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns the process id of the server.
    pub fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Builds the command `headway measure` from client to server, with further arguments.
    ///
    /// # Errors
    /// When the lab is down.
    pub fn measure_command(&self, args: &[&str]) -> anyhow::Result<Command> {
        let first = ["measure", self.address.as_str(), "--json"];
        self.client_command(first.into_iter().chain(args.iter().copied()))
    }

    /// Builds the command `headway` with these arguments in the client's node.
    ///
    /// # Errors
    /// When the lab is down.
    pub fn client_command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Command> {
        let mut command = self.lab.command("client", self.headway.clone(), args)?;
        die_with_parent(&mut command);
        prioritise(&mut command);
        Ok(command)
    }

    /// Runs one measurement and scores it.
    ///
    /// # Errors
    /// When it gives no answer, with its reason.
    pub fn measure(&self, args: &[&str]) -> anyhow::Result<Scored> {
        let output = self.measure_command(args)?.stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(line) = text.lines().find_map(|line| serde_json::from_str::<MeasureLine>(line).ok()) else {
            let reason = text.lines().last().unwrap_or("no output");
            bail!("`headway measure {}` failed: {reason}", args.join(" "));
        };
        self.score(line)
    }

    /// Runs `headway path` once; also returns whether the machine kept the emulator from delivering on time.
    ///
    /// # Errors
    /// When it gives no answer, with its reason.
    pub fn path(&self) -> anyhow::Result<(PathLine, bool)> {
        let mut command = self.client_command(["path", self.address.as_str(), "--json"])?;
        let from = now();
        let output = command.stdin(Stdio::null()).output()?;
        let to = now();
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(line) = text.lines().find_map(|line| serde_json::from_str::<PathLine>(line).ok()) else {
            bail!("`headway path` failed: {}", text.lines().last().unwrap_or("no output"));
        };
        let truths = self.lab.truths_between(from, to)?;
        let late = |truth: &Truth| disturbed(&truth.lateness_between(Direction::Forward, from, to));
        Ok((line, truths.iter().any(|(_, truth)| late(truth))))
    }

    fn score(&self, line: MeasureLine) -> anyhow::Result<Scored> {
        let (from, to) = (Instant::from_ns(line.started_unix_ns), Instant::from_ns(line.finished_unix_ns));
        let truths = self.lab.truths_between(from, to)?;
        let sampled = line.sampled_unix_ns.map_or(from, Instant::from_ns);
        let forward = Direction::Forward;
        // A link with TCP of the hosts leaves free what neither that nor other cross traffic uses.
        let free = |truth: &Truth| match self.background {
            None => truth.free_between(forward, sampled, to),
            Some(_) => truth.free_beside_tcp_between(forward, sampled, to),
        };
        let least = |of: &dyn Fn(&Truth) -> Option<Rate>| {
            let all: Option<Vec<Rate>> = truths.iter().map(|(_, truth)| of(truth)).collect();
            all?.into_iter().min()
        };
        let capacity = least(&|truth| truth.capacity_between(forward, sampled, to));
        let (Some(free), Some(capacity)) = (least(&free), capacity) else {
            bail!("the emulator's log does not cover the measurement");
        };
        let displaced = |truth: &Truth| truth.cross_drops_between(forward, from, to).1;
        let late = |truth: &Truth| disturbed(&truth.lateness_between(forward, from, to));
        Ok(Scored {
            truth_bps: free.bps(),
            capacity_truth_bps: capacity.bps(),
            cross_displaced: truths.iter().map(|(_, truth)| displaced(truth)).sum(),
            disturbed: truths.iter().any(|(_, truth)| late(truth)),
            line,
        })
    }

    /// Returns the emulator's log of a time span, which may not have ended yet.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn truth(&self, from: Instant, to: Instant) -> anyhow::Result<Truth> {
        Ok(self.lab.truth_between(from, to)?)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // Both fail only if the server has already exited.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Waits for the server's first line of output, which reports that it listens.
fn wait_until_listening(server: &mut Child) -> anyhow::Result<()> {
    let stdout = server.stdout.take().context("the server has no standard output")?;
    let mut reader = BufReader::new(stdout);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.contains("listening") {
        bail!("`headway serve` did not start: {}", line.trim());
    }
    // Later output must not fill the pipe.
    std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    Ok(())
}

/// Minimum buffer of the emulated paths. The batches of bursty cross traffic have the same number of packets
/// at any rate; at 10 Mb/s and 80 % load they alone would fill the 125 kB of a 100 ms buffer.
const MIN_BUFFER: Bytes = Bytes::new(1_000_000);
/// The nodes of these paths.
const NODES: [&str; 2] = ["client", "server"];

/// Returns a symmetric path with an RTT of 20 ms and a buffer of 100 ms, but at least `MIN_BUFFER`.
pub fn symmetric(rate: Rate, coalesce: Option<Duration>) -> Scenario {
    let buffer = Buffer::Bytes(rate.bytes_in(Duration::from_ms(100)).max(MIN_BUFFER));
    let [client, server] = NODES;
    let link = LinkSpec::at(client, server, rate, Duration::from_ms(10));
    let link = LinkSpec { buffer: Some(BufferSize::Limit(buffer)), ..link };
    let coalescing = coalesce.map(Coalescing::from);
    let host = [(server.to_owned(), HostSpec { coalescing, ack_coalescing: coalescing })].into();
    Scenario { host, ..Scenario::of(vec![link]) }
}

/// Cross traffic of packets of 1500 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// At equal intervals.
    Cbr,
    /// At exponential intervals.
    Poisson,
    /// In batches at exponential intervals.
    Bursty,
}

impl Model {
    /// Returns the traffic of this mean rate.
    pub fn traffic(self, rate: Rate) -> Traffic {
        match self {
            Model::Cbr => Traffic::cbr(rate),
            Model::Poisson => Traffic::poisson(rate),
            Model::Bursty => Traffic::batches(rate),
        }
    }

    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Model::Cbr => "CBR",
            Model::Poisson => "Poisson",
            Model::Bursty => "bursty",
        }
    }
}

/// Returns cross traffic of full packets from client to server.
pub fn cross(model: Model, rate: Rate) -> Vec<TrafficSpec> {
    if rate == Rate::ZERO {
        return Vec::new();
    }
    let [client, server] = NODES;
    vec![TrafficSpec::new(client, server, model.traffic(rate))]
}

/// Returns the network `path` with `traffic`.
pub fn spec(path: Scenario, traffic: Vec<TrafficSpec>, seed: u64) -> Scenario {
    Scenario { traffic, seed, ..path }
}

/// Writes text to a file, creating its parent folders if necessary.
///
/// # Errors
/// When that fails.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
