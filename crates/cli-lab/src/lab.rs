//! `headway lab`: emulated networks with known available bandwidth.

mod check;
mod run;

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use headway_lab::{Direction, Edge, Lab, Life, LinkSpec, PathSpec, Status, describe_link, lanes};
use headway_scenario::{Change, Scenario, is_lab_name};

use headway_program::exit::Code;
use headway_program::service::signals;
use headway_program::{out, print_error, print_line};
use headway_runs::interruption;

/// Manages emulated paths with known available bandwidth.
///
/// A lab has two nodes, `client` and `server`, each with a network of its own, and an emulated link between
/// them with rate, buffer, delay, loss and cross traffic; or any number of nodes and links, where nodes with
/// several links are routers. The bandwidth that cross traffic leaves free is logged every 10 ms, so that
/// measurements can be compared with the truth. Works without root where the host permits user namespaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    headway lab up scenarios/access-100.toml\n  \
    headway lab exec client -- ping -c 3 10.77.0.2\n  \
    headway lab down access-100")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const RUN_EXAMPLES: &str = "Examples:\n  \
    headway lab run scenarios/access-100.toml -- ping -c 3 10.77.0.2\n  \
    headway lab run scenarios/dsl.toml --node server -- headway serve";

/// The keys of a scenario file, for the help text.
const SCENARIO: &str = "\
Scenario file, the same as for `headway run`; optional keys show their defaults, docs/simulate.md has more:
  name = \"...\"             # the file's name
  seed = 1                 # of everything random: the same seed gives the same traffic
  mtu = 1500               # 1280 to 9000
  interval = \"10 ms\"       # of the truth log
  delays = false           # whether it includes a histogram of queueing delays, 1 us bins
  header-protocol = 253    # of the congestion headers that explicit routers rewrite
  header-port = 4000       # none; a port of UDP whose packets have such headers, too
  header-option = 253      # kind of TCP options that are such headers; 253 or 254

  [forward]                # client -> server
  rate = \"100 Mb/s\"        # on the wire, where a packet takes its IP length + 38 bytes
  rates = [[\"0 s\", \"50 Mb/s\"], [\"5 s\", \"10 Mb/s\"]]   # none; instead of `rate`; times since the lab came up
  burst = \"30 kB\"          # none; makes `rate` that of a token bucket; `peak-rate` limits its bursts
  line = \"100 Mb/s\"        # none; that of the sending node: its frames reach the queue one after the other
  trace = \"FILE\"           # none; instead of `rate`: one line per packet of 1500 bytes, its time in ms
  outages = [[\"10 s\", \"200 ms\"]]   # none; the link sends nothing, packets wait
  delay = \"0 ms\"           # after the last bit has left
  delay-trace = \"FILE\"     # none; instead of `delay`; one line per change: time and new delay, in milliseconds,
                           # or a list such as [[\"0 s\", \"10 ms\"], [\"5 s\", \"30 ms\"]]
  jitter = \"0 ms\"          # additional delay of each packet, uniform from zero to this; or a distribution such as
                           # { kind = \"normal\", mean = \"2 ms\", deviation = \"500 us\", correlation = 0.3 }
  reordering = false       # whether jitter may let packets overtake each other
  buffer = \"1.25 MB\"       # 100 ms at the rate, at least 64 kB; in wire bytes, packets, or time at the rate
  queue = { kind = \"step\", threshold = \"30 kB\" }   # drop-tail; red, ramp, step, codel, pie, dualpi2, fq-codel;
                           # xcp, rcp and other explicit routers as in docs/explicit.md
  police = { rate = \"50 Mb/s\", burst = \"30 kB\" }   # none; a policer before the queue, which drops the excess
  loss = 0.0               # probability per packet; `loss-bursts` for losses in bursts
  duplicate = 0.0          # probability that a packet arrives twice
  corrupt = 0.0            # probability that a bit is flipped, so that the receiver's checksum is wrong
  ecn = \"keep\"            # or clear: packets arrive without ECN, marks are lost

  [reverse]                # server -> client: as forward; rate and delay of forward when absent

  [[link]]                 # any number, in place of [forward] and [reverse]; at most 200
  from = \"h1\"              # nodes; those with several links forward packets
  to = \"r1\"
  name = \"h1-r1\"           # FROM-TO
  forward = { rate = \"50 Mb/s\", delay = \"2 ms\" }   # FROM -> TO, with the keys above; also as [link.forward]
  reverse = { ... }        # TO -> FROM: rate and delay of forward

  [[traffic]]              # any number; over one link with a rate
  from = \"client\"
  to = \"server\"
  model = \"poisson\"        # cbr: equal gaps; poisson: random gaps; bursty: random batches; web, pcap and others
  rate = \"40 Mb/s\"         # mean, on the wire
  size = \"1538 B\"          # of its packets, on the wire
  start = \"0 s\"            # since the lab came up
  stop = \"30 s\"            # never

  [host.server]
  coalescing = \"120 us\"    # none; least time between interrupts of its NIC, or a table";

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts a lab described by a scenario file.
    ///
    /// The lab has its nodes, links and traffic. Flows, measurements, programs and changes
    /// are for `headway run`.
    ///
    /// The lab stays up until `headway lab down`, even after this shell exits. With --foreground it lasts as
    /// long as the command; Ctrl-C takes it down.
    #[command(after_long_help = SCENARIO)]
    Up {
        /// Scenario file (TOML): [forward] and optional [reverse], or any number of [[link]]; any
        /// number of [[traffic]].
        file: PathBuf,
        /// Name of the lab [default: `name` in the file, or else the file's name].
        #[arg(long)]
        name: Option<String>,
        /// Stay in the foreground and take the lab down at the end.
        #[arg(long)]
        foreground: bool,
    },
    /// Starts a lab, runs a program in one of its nodes, and takes the lab down again.
    ///
    /// The exit code is that of the program. Ctrl-C ends the program and takes the lab down, too. While the
    /// program runs, other programs can run beside it with `headway lab exec`.
    #[command(after_help = RUN_EXAMPLES)]
    Run(run::RunArgs),
    /// Runs a program in a node of a lab.
    ///
    /// Only the network differs from the host's; files and processes are the same. The exit code is
    /// that of the program.
    Exec {
        /// Name of the lab; optional if only one is up.
        #[arg(long)]
        name: Option<String>,
        /// Node: `client` or `server`, or a node of the scenario file.
        node: String,
        /// Program and arguments, after `--`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Takes a lab down and terminates all programs in its nodes.
    ///
    /// This removes the lab's truth file; save it with --truth.
    Down {
        /// Name of the lab; optional if only one is up.
        #[arg(conflicts_with = "all")]
        name: Option<String>,
        /// Take down all labs of this user.
        #[arg(long)]
        all: bool,
        /// Save the truth file here.
        #[arg(long, value_name = "FILE", conflicts_with = "all")]
        truth: Option<PathBuf>,
    },
    /// Changes a link of a lab while packets pass.
    ///
    /// Keys are those of the scenario file, below `forward` or `reverse`. Packets stay in the queue. A router
    /// that tells senders their rate keeps what it knows, also when it changes from one kind to another.
    #[command(after_help = "Example:\n  \
        headway lab set office forward.rate=\"20 Mb/s\"\n  \
        headway lab set office forward.queue.kappa=\"9 kB\" forward.queue.n=3\n  \
        headway lab set office forward.queue='{ kind = \"codel\" }'")]
    Set {
        /// Name of the lab.
        name: String,
        /// A key and its new value.
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = change)]
        changes: Vec<Change>,
        /// The link; optional if the lab has only one.
        #[arg(long)]
        link: Option<String>,
    },
    /// Checks that an interface of this host, or of a lab, does nothing to packets that a measurement
    /// of queues would see.
    ///
    /// Steps have an order, because later ones depend on earlier ones: a driver that is set anew loses its
    /// queue and routes. Each is read from the kernel, so a step holds only if the kernel confirms it.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Shows the labs that are up, with addresses and current available bandwidth.
    Status,
}

impl Args {
    /// Whether the command has a JSON form.
    pub(crate) fn has_json(&self) -> bool {
        matches!(self.command, Command::Status | Command::Check(_))
    }
}

/// Runs the subcommand.
///
/// # Errors
/// When the lab cannot carry out the command.
pub(crate) fn run(args: Args, json: bool) -> Result<ExitCode> {
    match args.command {
        Command::Up { file, name, foreground } => up(&file, name, foreground),
        Command::Run(args) => run::run(&args),
        Command::Exec { name, node, command } => exec(name.as_deref(), &node, &command),
        Command::Down { name, all, truth } => down(name, all, truth),
        Command::Set { name, changes, link } => set(&name, &changes, link.as_deref()),
        Command::Check(args) => check::run(&args, json),
        Command::Status => status(json),
    }
}

fn up(file: &std::path::Path, name: Option<String>, foreground: bool) -> Result<ExitCode> {
    let network = load(file)?;
    let named = Some(network.name.clone()).filter(|name| is_lab_name(name));
    let name = name.or(named).unwrap_or_else(|| "lab".to_owned());
    // Up to this point a signal terminates this process and, with it, the lab.
    let lab = Lab::up(&network, &name, Life::Owned)?;
    if foreground {
        let ended = signals()?;
        print_line!("{}\nCtrl-C takes it down.", describe(&lab));
        wait(&lab, &ended)?;
        lab.down()?;
        return Ok(ExitCode::SUCCESS);
    }
    let interrupted = interruption()?;
    let lab = lab.detach()?;
    if interrupted.is_cancelled() {
        lab.down()?;
        print_error!("headway: interrupted; the lab is down again");
        return Ok(Code::Interrupted.into());
    }
    print_line!("{}\ntake it down with: headway lab down {name}", describe(&lab));
    Ok(ExitCode::SUCCESS)
}

/// Reads the network of a scenario file, and prints warnings about it.
fn load(file: &std::path::Path) -> Result<Scenario> {
    let (network, warnings) = headway_lab::load(file)?;
    for warning in warnings {
        print_error!("headway: warning: {warning}");
    }
    Ok(network)
}

fn describe(lab: &Lab) -> String {
    let name = lab.name();
    let links = &lab.spec().links;
    let mut text = format!("lab {name} is up\n");
    for Edge { name, path, .. } in links {
        let lane =
            |direction| if links.len() > 1 { format!("{name} {direction}") } else { format!("{direction}") };
        for direction in Direction::BOTH {
            text += &format!("  {}   {}\n", lane(direction), describe_link(path.side(direction)));
        }
    }
    for node in lab.nodes() {
        text += &format!("  {:7}   {}  {}\n", node.name, node.v4, node.v6);
    }
    text += &format!("  truth     {}\n", lab.truth_path().display());
    if links.iter().any(|link| Direction::BOTH.iter().any(|side| has_router(link.path.side(*side)))) {
        text += &format!("  routers   {}\n", lab.routers_path().display());
    }
    let first = lab.nodes().next().map_or("NODE", |node| &node.name);
    text + &format!("enter it with: headway lab exec --name {name} {first} -- COMMAND")
}

fn has_router(link: &LinkSpec) -> bool {
    link.queue.as_ref().is_some_and(|queue| queue.reads_headers())
}

/// Waits for a signal, or for the daemon of the lab to exit.
fn wait(lab: &Lab, ended: &UnixStream) -> Result<()> {
    // Polling the lab every half second is enough; a signal ends the read at once.
    ended.set_read_timeout(Some(Duration::from_millis(500)))?;
    while std::io::Read::read(&mut &*ended, &mut [0]).is_err() {
        if lab.wait(Duration::ZERO) {
            bail!("the lab's daemon has ended");
        }
    }
    Ok(())
}

fn exec(name: Option<&str>, node: &str, command: &[OsString]) -> Result<ExitCode> {
    let lab = find(name)?;
    let Some((program, args)) = command.split_first() else { bail!("no program given") };
    // This process becomes the program, so the program gets signals, terminal and exit code.
    let error = lab.command(node, program, args)?.exec();
    Err(error).with_context(|| format!("cannot run `{}` in the {node}", program.to_string_lossy()))
}

/// Returns the lab with this name, or the only lab.
fn find(name: Option<&str>) -> Result<Lab> {
    if let Some(name) = name {
        return Ok(Lab::attach(name)?);
    }
    let mut labs = Lab::list()?;
    match (labs.pop(), labs.is_empty()) {
        (Some(lab), true) => Ok(lab),
        (None, _) => bail!("no lab is up; start one with `headway lab up FILE`"),
        (Some(last), false) => {
            let names: Vec<&str> = labs.iter().chain([&last]).map(Lab::name).collect();
            bail!("several labs are up ({}); name one", names.join(", "))
        }
    }
}

fn down(name: Option<String>, all: bool, truth: Option<PathBuf>) -> Result<ExitCode> {
    let names = match name {
        _ if all => headway_lab::lab::names()?,
        Some(name) => vec![name],
        None => vec![find(None)?.name().to_owned()],
    };
    for name in names {
        if let Some(file) = &truth {
            let from = Lab::attach(&name)?.truth_path();
            std::fs::copy(&from, file)
                .with_context(|| format!("cannot copy the truth to {}", file.display()))?;
        }
        if !headway_lab::lab::down(&name)? && !all {
            bail!("no lab `{name}` is up; `headway lab status` lists those that are");
        }
        print_line!("lab {name} is down");
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a change of a link.
fn change(text: &str) -> Result<Change, String> {
    let example = |_| "a change looks like `forward.rate=20 Mb/s`".to_owned();
    let change: Change = text.parse().map_err(example)?;
    let sides = Direction::BOTH.map(|direction| direction.to_string());
    if sides.iter().any(|side| text.trim_start().starts_with(side.as_str())) {
        return Ok(change);
    }
    Err("a change begins with `forward` or `reverse`, as in `forward.rate=20 Mb/s`".to_owned())
}

fn set(name: &str, changes: &[Change], link: Option<&str>) -> Result<ExitCode> {
    let lab = Lab::attach(name)?;
    let apply = |path: &PathSpec| -> Result<PathSpec> {
        Ok(headway_scenario::apply(&toml::to_string(path)?, changes)?)
    };
    lab.change_link(link, apply)?;
    for change in changes {
        print_line!("lab {name}: {change}");
    }
    Ok(ExitCode::SUCCESS)
}

fn status(json: bool) -> Result<ExitCode> {
    let labs = Lab::list()?;
    if json {
        let labs: Vec<_> = labs.iter().map(as_json).collect();
        out::document(&serde_json::to_string_pretty(&labs)?);
        return Ok(ExitCode::SUCCESS);
    }
    if labs.is_empty() {
        print_line!("no lab is up");
    }
    for lab in &labs {
        print_line!("{}", describe(lab));
        let Ok(live) = lab.status() else {
            print_line!("  the lab's daemon does not respond");
            continue;
        };
        let several = live.links.len() > 1;
        for link in &live.links {
            for lane in lanes(link, several) {
                print_line!("  {lane}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(lab: &Lab) -> serde_json::Value {
    let nodes: Vec<_> = lab.nodes().collect();
    serde_json::json!({
        "name": lab.name(),
        "daemon": lab.daemon(),
        "nodes": nodes,
        "holders": lab.holders(),
        "truth": lab.truth_path(),
        "routers": lab.routers_path(),
        "scenario": lab.spec(),
        "live": lab.status().ok().map(live_as_json).map(with_text_times),
    })
}

/// Adds the start of every logged interval as text: many readers of JSON keep only 53 bits of a number.
fn with_text_times(mut value: serde_json::Value) -> serde_json::Value {
    match &mut value {
        serde_json::Value::Object(object) => {
            for (_, inner) in object.iter_mut() {
                *inner = with_text_times(inner.take());
            }
            let is_interval = object.contains_key("capacity") && object.contains_key("host_bits");
            let start = object.get("start").and_then(serde_json::Value::as_u64).filter(|_| is_interval);
            if let Some(start) = start {
                let text = headway_program::time::rfc3339(headway_units::Instant::from_ns(start));
                object.insert("start_rfc3339".to_owned(), text.into());
            }
        }
        serde_json::Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = with_text_times(item.take()));
        }
        _ => {}
    }
    value
}

/// The only link of a lab is an object of the same level as the cross traffic, as it was
/// when no lab had more.
fn live_as_json(live: Status) -> serde_json::Value {
    match &live.links[..] {
        [link] => serde_json::json!({
            "path": link.path,
            "cross": live.cross,
            "forward": link.forward,
            "reverse": link.reverse,
            "forward_oversized": link.forward_oversized,
            "reverse_oversized": link.reverse_oversized,
            "forward_router": link.forward_router,
            "reverse_router": link.reverse_router,
            "links": live.links,
        }),
        _ => serde_json::json!(live),
    }
}
