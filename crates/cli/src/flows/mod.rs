//! `headway flows`: what the kernel says of the TCP connections of this host, many times a second.

mod folder;
mod run;
mod table;
mod watch;

use std::path::PathBuf;

use headway_passive::Filter;
use headway_units::Duration;

pub(crate) use run::run;

/// Shows the TCP connections of this host live: rate, windows, RTT and buffers.
///
/// The numbers are the kernel's (`TCP_INFO`, as in `ss -ti`), of all connections of this network namespace.
/// `told` is the receive window that this end announced last, `seen` the last one from its peer. If a router
/// on the path clamps windows (`headway edge`), one end sees less than the other one told.
///
/// Needs no root, and changes nothing. Ctrl-C ends it with a summary.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    headway flows                                            # a table, as on a router or server\n  \
    headway flows --filter 'port 443 and net 192.0.2.0/24' --csv telemetry --interval 10ms\n  \
    headway flows --json --duration 10s | jq '.connections[]? | [.peer, .rtt_us]'\n\n\
Columns (docs/flows.md says more):\n  \
    out, in      payload that was acknowledged and received\n  \
    cwnd         congestion window, in segments\n  \
    told, seen   receive window that this end announced last, and that it saw last\n  \
    unread       received, and not yet read by the application\n  \
    not acked    written by the application, and not yet acknowledged")]
pub(crate) struct FlowsArgs {
    /// How often to ask the kernel.
    #[arg(long, default_value = "100 ms", value_name = "TIME", value_parser = interval)]
    interval: Duration,
    /// End after this long.
    #[arg(long, short, value_name = "TIME", value_parser = interval)]
    duration: Option<Duration>,
    /// Only connections that match, such as `host 192.0.2.7 and not port 22`: the words of
    /// `headway passive --filter`.
    #[arg(long, short, value_name = "FILTER")]
    filter: Option<Filter>,
    /// Write a CSV file for each connection to this folder, which must be new or empty.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Most connections to follow at a time; further ones are counted.
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections: u32,
}

/// Parses a time. Shorter ones would ask the kernel most of the time.
fn interval(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if time >= Duration::from_ms(1) { Ok(time) } else { Err("it must be at least 1 ms".to_owned()) }
}
