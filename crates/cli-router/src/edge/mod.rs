//! `headway edge`: holds downloads and uploads at the receive window.

mod flows;
mod history;
mod run;
mod second;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use headway_net::Host;
use headway_units::{Bytes, Rate};

use headway_program::arguments::some_rate;

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When interfaces, policy or history cannot be used, or the kernel refuses.
pub(crate) fn run(args: &Args, json: bool) -> Result<()> {
    match (&args.command, &args.edge) {
        (Some(EdgeCommand::History(args)), _) => history::run(args, json),
        (None, Some(args)) => run::run(args, json),
        (None, None) => {
            anyhow::bail!("say the interfaces and the rate of the link: see `headway edge --help`")
        }
    }
}

/// Shares an access link without a queue, by clamping receive windows.
///
/// Runs on a router, whose kernel goes on forwarding. Two BPF programs lower the window in ACKs to the
/// connection's share of the link, so that it is fast enough for the link and too slow to fill a queue; they
/// delay and drop nothing, and hosts stay as they are. Every second it classifies each flow by its packets:
/// calls and interactive traffic are not limited. Every 15 s it lowers all windows for four RTTs, to see the
/// RTT without a queue. Connections opened before it started, and what is not plain TCP (QUIC, tunnels,
/// fragments), pass unchanged.
///
/// Needs root, and Linux 6.1 or later. After Ctrl-C everything passes as before, as it does five seconds
/// after the process hangs.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    sudo headway edge --lan eth1 --wan eth0 --rate 100Mb/s --dry-run    # only says what it would do\n  \
    sudo headway edge --lan eth1 --wan eth0 --rate 100Mb/s --up 20Mb/s\n  \
    sudo headway edge --lan eth1 --wan eth0                             # finds the rate by itself\n  \
    sudo headway edge --lan eth1 --wan eth0 --probe measure.example     # against headway serve there\n\n\
Policy (TOML; docs/edge.md has all keys):\n  \
    borrow-idle = true       # classes with connections share what the others leave\n\n  \
    [[class]]                # the first class that matches a connection counts\n  \
    name = \"backup\"\n  \
    share = 0.2\n  \
    ports = [873, 22]        # of the server\n  \
    split = \"small-receivers\"  # splits the next connections of hosts with small windows\n\n  \
    [[class]]\n  \
    name = \"rest\"\n  \
    share = 0.8\n\n  \
    [classifier]             # optional: thresholds of the classification\n  \
    largest-answer = \"1 MB\"")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<EdgeCommand>,
    #[command(flatten)]
    edge: Option<EdgeArgs>,
}

/// What an edge needs.
#[derive(Debug, clap::Args)]
pub(crate) struct EdgeArgs {
    /// The interface towards the hosts.
    #[arg(long, value_name = "IF", help_heading = "Link")]
    lan: String,
    /// The interface towards the link.
    #[arg(long, value_name = "IF", help_heading = "Link")]
    wan: String,
    /// The rate of the link towards the hosts, and back unless `--up` is given. Without it, the edge keeps
    /// finding the rate by the queue that connections make in the link.
    #[arg(long, value_name = "RATE", value_parser = some_rate, help_heading = "Link")]
    rate: Option<Rate>,
    /// The rate of the link from the hosts.
    #[arg(long, value_name = "RATE", value_parser = some_rate, requires = "rate", help_heading = "Link")]
    up: Option<Rate>,
    /// File (TOML) with classes and their shares; without one, all connections share alike. Changes take
    /// effect within a second, and at once on SIGHUP.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Change nothing; count what would be done, and print the decision about each flow, and why.
    #[arg(long)]
    dry_run: bool,
    /// Show the flows: class, behaviour, RTT, window, rate, what limits them.
    #[arg(long, help_heading = "Output")]
    flows: bool,
    /// Show all of it on a page at this address, 127.0.0.1:8080 without one, with metrics for Prometheus at
    /// /metrics; addresses that other hosts reach need a token.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8080", help_heading = "Output")]
    page: Option<SocketAddr>,
    /// File with the token for viewers of the page. They send it in plain text, so it must not be that of
    /// measurements; other users must not be able to read the file.
    #[arg(long, value_name = "FILE", requires = "page", help_heading = "Output")]
    page_token_file: Option<PathBuf>,
    /// Keep rates and decisions in this file, /var/lib/headway/edge.history without one, of 128 MiB at most:
    /// every second of a day, every minute of a year. `headway edge history` shows it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = history::FILE, help_heading = "Output")]
    history: Option<PathBuf>,
    /// Take lines of JSON at this Unix socket (datagrams), by which a modem, a dish or a program reports what
    /// is available on the link: connections share that for 5 s, where it is less than the link.
    #[arg(long, value_name = "SOCKET", help_heading = "Link")]
    signals: Option<PathBuf>,
    /// Measure the link against `headway serve` on this host beyond it, by a few packets now and then:
    /// its capacity and, while it is idle, what is available. May be repeated: the next host is used when
    /// one does not answer.
    #[arg(long, value_name = "HOST", help_heading = "Probing")]
    probe: Vec<Host>,
    /// Most bytes of probes an hour, in both directions together.
    #[arg(long, value_name = "BYTES", default_value = "50 MB", requires = "probe", value_parser = probe_budget, help_heading = "Probing")]
    probe_budget: Bytes,
    /// File with the token of these hosts, also in the variable HEADWAY_TOKEN.
    #[arg(long, value_name = "FILE", requires = "probe", help_heading = "Probing")]
    probe_token_file: Option<PathBuf>,
    /// Share the link with `headway edge` at its other end, at this address (with a UDP port, 8622
    /// without): each tells the other once a second which flows share, and all get alike. Both need
    /// the rate and the key.
    #[arg(long, value_name = "ADDRESS", value_parser = peer, requires_all = ["rate", "peer_key_file"], help_heading = "Link")]
    peer: Option<SocketAddr>,
    /// File with the key that both edges have, of at least 16 characters.
    #[arg(long, value_name = "FILE", requires = "peer", help_heading = "Link")]
    peer_key_file: Option<PathBuf>,
    /// Most connections that are limited; further ones pass unchanged.
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    connections: u32,
}

/// The port of edges that coordinate: after that of `headway serve`.
const PEER_PORT: u16 = headway_net::DEFAULT_PORT + 1;

/// Less does not even pay for pairs in both directions every few minutes.
const LEAST_PROBE_BUDGET: Bytes = Bytes::new(2_000_000);

/// Reads the budget of an hour.
fn probe_budget(text: &str) -> Result<Bytes, String> {
    let budget: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if budget < LEAST_PROBE_BUDGET {
        return Err(format!("must be {LEAST_PROBE_BUDGET} or more"));
    }
    Ok(budget)
}

/// Reads the address of the other edge, whose port may be left out.
fn peer(text: &str) -> Result<SocketAddr, String> {
    let usual = |_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PEER_PORT));
    text.parse().or_else(usual).map_err(|_| "must be an address, or one with a port".to_owned())
}

#[derive(Debug, clap::Subcommand)]
enum EdgeCommand {
    History(history::HistoryArgs),
}
