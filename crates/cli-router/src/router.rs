//! `headway router`: an emulated link between two interfaces that exist already.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use headway_lab::{Direction, LinkStatus, Router, describe_link, lanes};
use serde_json::json;

use headway_program::service::signals;
use headway_program::{out, print_error, print_line};

/// How often the state is printed.
const EVERY: Duration = Duration::from_secs(1);

/// Forwards between two interfaces through an emulated link, such as a router of XCP or RCP.
///
/// Frames that arrive at one interface leave at the other: the link is a bridge with a rate, a queue and a
/// delay. If its queue is an explicit router (docs/explicit.md), it rewrites the congestion headers of the
/// packets. Needs root, or CAP_NET_RAW and CAP_NET_ADMIN. The interfaces must not belong to a bridge or bond;
/// Ctrl-C leaves them as they were. Frames larger than the MTU are dropped and counted. An interface can have
/// one router. It ends with an error when an interface is removed, also if another one gets its name. Prints
/// the state every second.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    headway router eth1 eth2 narrow.toml\n\n\
File (`headway lab up --help` lists all keys):\n  \
    [forward]                # from the first interface to the second\n  \
    rate = \"10 Mb/s\"\n  \
    queue = { kind = \"rcp\" }\n\n  \
    [reverse]                # back; rate and delay of forward when absent\n  \
    rate = \"10 Mb/s\"")]
pub(crate) struct RouterArgs {
    /// The first interface.
    first: String,
    /// The second interface.
    second: String,
    /// File (TOML) with the link: [forward] and optional [reverse].
    file: PathBuf,
    /// Write a line of JSON for every control interval of the routers.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
}

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When the interfaces or the file cannot be used.
pub(crate) fn run(args: &RouterArgs, json: bool) -> Result<ExitCode> {
    tracing_subscriber::fmt().with_ansi(false).with_target(false).with_writer(std::io::stderr).init();
    let (network, warnings) = headway_lab::load(&args.file)?;
    for warning in warnings {
        print_error!("headway: warning: {warning}");
    }
    let mut router = Router::start([&args.first, &args.second], &network, args.records.as_deref())?;
    let mut ended = signals()?;
    ended.set_read_timeout(Some(EVERY))?;
    if !json {
        print_line!("forwarding between {} and {}; Ctrl-C ends it", args.first, args.second);
        let link = router.status()?;
        for direction in Direction::BOTH {
            print_line!("  {direction}   {}", describe_link(link.path.side(direction)));
        }
    }
    // A signal ends the read at once.
    while ended.read(&mut [0]).is_err() {
        print(&router.status()?, json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(link: &LinkStatus, json: bool) -> Result<()> {
    if json {
        let state = json!({
            "forward": link.forward,
            "reverse": link.reverse,
            "forward_oversized": link.forward_oversized,
            "reverse_oversized": link.reverse_oversized,
            "forward_router": link.forward_router,
            "reverse_router": link.reverse_router,
        });
        print_line!("{state}");
    } else {
        for lane in lanes(link, false) {
            print_line!("{lane}");
        }
    }
    out::check()
}
