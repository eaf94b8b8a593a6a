//! `headway select`: chooses among paths by what they have free.

mod run;
mod show;
mod status;

use std::path::PathBuf;

use headway_program::exit::{self, Code, Failed};

/// Runs the subcommand.
///
/// # Errors
/// When the file has a mistake, no path answers, or the kernel refuses.
pub(crate) fn run(args: &Args, json: bool) -> Result<(), Failed> {
    match (&args.command, &args.select) {
        (Some(SelectCommand::Status(args)), _) => Ok(status::run(args, json)?),
        (None, Some(args)) => run::run(args, json),
        (None, None) => {
            let reason = anyhow::anyhow!("name the file with the paths: see `headway select --help`");
            Err(Failed::new(Code::Arguments, reason))
        }
    }
}

/// Chooses among paths by how long transfers take over them, or by what they have free.
///
/// `headway serve` runs at the far end of each path. Short streams of 50 to 150 kB test how much is free on a
/// path, only where the answer may change the choice; whole measurements are rare. From the available
/// bandwidth, the RTT and losses follows the time of a transfer of the usual size. A path replaces another if
/// it is better by more than the tolerance with odds of 90 %. Prints a sentence for each decision.
///
/// A program of yours (`hook`) or routes for all destinations without a more specific one (`route`) carry the
/// choice out, or spread new connections over all paths in proportion to what is free (`balance`). The
/// default route stays, and holds again when this ends.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_long_help = exit::HELP)]
#[command(after_help = "Examples:\n  \
    headway select paths.toml --once            # measures all, and prints their order\n  \
    headway select paths.toml --dry-run         # says what it would choose, and why\n  \
    sudo headway select paths.toml --listen 9188    # and tells programs at http://127.0.0.1:9188/v1/paths\n  \
    sudo headway select status                  # a live table\n\n\
Paths (TOML; docs/select.md has all keys):\n  \
    max-bytes-per-hour = \"20 MB\"                # over each path\n  \
    route = true\n\n  \
    [[path]]\n  \
    name = \"cable\"\n  \
    hosts = [\"192.0.2.7\"]                       # where headway serve runs\n  \
    interface = \"eth0\"\n  \
    next-hop = \"192.168.1.1\"\n\n  \
    [[path]]\n  \
    name = \"lte\"\n  \
    hosts = [\"192.0.2.7\"]\n  \
    interface = \"wwan0\"")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<SelectCommand>,
    #[command(flatten)]
    select: Option<SelectArgs>,
}

/// What is to be chosen among, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// File (TOML) with the paths.
    file: PathBuf,
    /// Measure each path, print their order, and end.
    #[arg(long)]
    once: bool,
    /// Print decisions, and change nothing.
    #[arg(long, conflicts_with = "once")]
    dry_run: bool,
    /// Unix socket for `headway select status` [default: /run/headway/select.sock for root, none for others].
    #[arg(long, value_name = "SOCKET", conflicts_with = "once")]
    socket: Option<PathBuf>,
    /// Serve the state at `http://ADDR/v1/paths`, and changes at `/v1/events`; a port alone
    /// is one of 127.0.0.1.
    #[arg(long, value_name = "ADDR", value_parser = headway_program::arguments::listen, conflicts_with = "once")]
    listen: Option<std::net::SocketAddr>,
    /// File with the token for that, which an address that other hosts reach needs.
    #[arg(long, value_name = "FILE", requires = "listen")]
    listen_token_file: Option<PathBuf>,
    /// Serve the same at this Unix socket, to the user of this process only.
    #[arg(long, value_name = "SOCKET", conflicts_with = "once")]
    http_socket: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum SelectCommand {
    Status(StatusArgs),
}

/// Shows the paths of a running `headway select`, and why one is chosen.
///
/// On a terminal the table is drawn again once a second, with the last decisions, until Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Its Unix socket [default: /run/headway/select.sock].
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Print the table once, also on a terminal.
    #[arg(long)]
    once: bool,
}
