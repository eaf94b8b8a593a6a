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
/// Behind each path runs `headway serve`. A few streams of one rate, 50 to 150 kB, tell whether so much is free on a path, and they are
/// sent only where the answer decides; whole measurements are rare. From what is free, the round-trip time and losses follows how long a
/// transfer takes of the size that is usual here. A path replaces another if it is better by more than the tolerance with odds of 90 %.
/// Prints a sentence for each decision.
///
/// The choice is carried out by a program of yours (`hook`), by routes for all destinations that no more specific route has (`route`),
/// which may also spread new connections over all paths in proportion to what is free (`balance`), or by nobody. The default route stays as
/// it is, and holds again when this ends, however that happens.
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
    /// Say what is decided, and do nothing.
    #[arg(long, conflicts_with = "once")]
    dry_run: bool,
    /// Tell the state at this Unix socket [default: /run/headway/select.sock for root, none for others].
    #[arg(long, value_name = "SOCKET", conflicts_with = "once")]
    socket: Option<PathBuf>,
    /// Tell programs the state at `http://ADDR/v1/paths`, and what changes at `/v1/events`; a port alone is one of 127.0.0.1.
    #[cfg(feature = "web")]
    #[arg(long, value_name = "ADDR", value_parser = crate::metrics::listen, conflicts_with = "once")]
    listen: Option<std::net::SocketAddr>,
    /// File with the token that they must know; an address that others reach needs one.
    #[cfg(feature = "web")]
    #[arg(long, value_name = "FILE", requires = "listen")]
    listen_token_file: Option<PathBuf>,
    /// Answer the same at this Unix socket, to the user of this process only.
    #[cfg(feature = "web")]
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
    /// The Unix socket at which it tells its state [default: /run/headway/select.sock].
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Print the table once, also on a terminal.
    #[arg(long)]
    once: bool,
}
