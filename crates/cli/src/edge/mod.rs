//! `headway edge`: holds downloads and uploads at the receive window.

mod flows;
mod history;
mod run;
mod second;

use std::path::PathBuf;

use anyhow::Result;
use headway_net::Host;
use headway_units::{Bytes, Rate};

use crate::passive::some_rate;

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

/// Shares an access link among connections at their receive windows.
///
/// Runs on a router, whose kernel goes on forwarding. Two small programs where packets arrive lower the window in ACKs to the
/// connection's share of the link, so that it is fast enough for the link and too slow to fill a queue: no packet is held or
/// dropped, and no host changes. It never raises a window. Every second it judges what each flow is for, by how its packets come:
/// calls, and what people wait for, are not limited. Every 15 s it lowers all windows for four RTTs, to see the RTT without
/// a queue. Connections are recognised by their handshake: those that were there before, and what is not plain TCP (QUIC, tunnels,
/// fragments), pass as they are.
///
/// Needs root, and Linux 6.8 or later. Ctrl-C ends it, and everything passes as before; so it does five seconds after the
/// process stops working, however that happens.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    sudo headway edge --lan eth1 --wan eth0 --rate 100Mb/s --dry-run    # only says what it would do\n  \
    sudo headway edge --lan eth1 --wan eth0 --rate 100Mb/s --up 20Mb/s\n  \
    sudo headway edge --lan eth1 --wan eth0                             # finds the rate by itself\n  \
    sudo headway edge --lan eth1 --wan eth0 --probe measure.example     # against headway serve there\n\n\
Policy (TOML; docs/edge.md has all keys):\n  \
    borrow-idle = true       # classes with connections share what the others leave\n\n  \
    [[class]]                # a connection is of the first class that it meets\n  \
    name = \"backup\"\n  \
    share = 0.2\n  \
    ports = [873, 22]        # of the end that was connected to\n  \
    split = \"small-receivers\"  # splits the next connections of hosts with small windows\n\n  \
    [[class]]\n  \
    name = \"rest\"\n  \
    share = 0.8\n\n  \
    [classifier]             # optional: where the judgement of flows draws its lines\n  \
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
    /// The interface towards the hosts whose link it is.
    #[arg(long, value_name = "IF")]
    lan: String,
    /// The interface towards the link.
    #[arg(long, value_name = "IF")]
    wan: String,
    /// The rate of the link towards the hosts, and back unless `--up` says another. Without it, the rate is found, again and again, by
    /// the queue that connections make in the link.
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    rate: Option<Rate>,
    /// The rate of the link from the hosts.
    #[arg(long, value_name = "RATE", value_parser = some_rate, requires = "rate")]
    up: Option<Rate>,
    /// File (TOML) with classes and their shares; without one, all connections share alike. What changes in it holds within a
    /// second, and at once on SIGHUP.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Change nothing; count what would be done, and say what is decided about each flow, and why.
    #[arg(long)]
    dry_run: bool,
    /// Show the flows on the terminal, or with `--json`: class, what each is for, RTT, window, rate, what limits it.
    #[arg(long)]
    flows: bool,
    /// Show all of it on a page at this address, 127.0.0.1:8080 without one, with metrics for Prometheus at /metrics; addresses that
    /// others can reach need a token.
    #[cfg(feature = "web")]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8080")]
    page: Option<std::net::SocketAddr>,
    /// File with the token that viewers of the page must know. They send it in plain text, so it must not be that of measurements;
    /// others must not be able to read the file.
    #[cfg(feature = "web")]
    #[arg(long, value_name = "FILE", requires = "page")]
    page_token_file: Option<PathBuf>,
    /// Keep what is known and decided in this file, /var/lib/headway/edge.history without one, of 128 MiB at most: a second for
    /// a day, a minute for a year. `headway edge history` shows it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = history::FILE)]
    history: Option<PathBuf>,
    /// Take lines of JSON at this Unix socket (datagrams), by which a modem, a dish or a program says what the link has left:
    /// connections share that for 5 s, where it is less than the link.
    #[arg(long, value_name = "SOCKET")]
    signals: Option<PathBuf>,
    /// Measure the link against `headway serve` on this host beyond it, for a few packets now and then: its capacity, and, while nobody
    /// needs it, what is available. Of several hosts the next one is taken when one does not answer.
    #[arg(long, value_name = "HOST")]
    probe: Vec<Host>,
    /// Send and get at most so many bytes an hour for that.
    #[arg(long, value_name = "BYTES", default_value = "50 MB", requires = "probe", value_parser = probe_budget)]
    probe_budget: Bytes,
    /// File with the token of these hosts, as `HEADWAY_TOKEN` may have it.
    #[arg(long, value_name = "FILE", requires = "probe")]
    probe_token_file: Option<PathBuf>,
    /// Most connections that are held; further ones pass as they are.
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    connections: u32,
}

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

#[derive(Debug, clap::Subcommand)]
enum EdgeCommand {
    History(history::HistoryArgs),
}
