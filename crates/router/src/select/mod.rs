//! A choice among paths by what they have free.

mod asker;
mod driver;
mod file;
mod hook;
mod hush;
mod keeper;
mod ledger;
mod link;
mod lock;
mod mptcp;
mod namespace;
mod opener;
mod route;
mod run;
mod shares;
mod socket;
mod state;
mod steps;
mod subflows;
mod viewers;

use std::net::SocketAddr;
use std::path::PathBuf;

use headway_net::Token;
use headway_select::{DecisionState, Snapshot};

pub use asker::Vain;
pub use file::File;
pub use run::{once, run};
pub use socket::{SOCKET, ask};
pub use state::{Known, State, Timed};

/// What a choice that goes on is to do.
#[derive(Clone, Default)]
pub struct Options {
    /// Whether nothing is to be done for what is decided.
    pub dry_run: bool,
    /// The token of the far ends.
    pub token: Option<Token>,
    /// The Unix socket that serves the state, instead of the usual one.
    pub socket: Option<PathBuf>,
    /// Where programs get the state over HTTP, with the token that they must know.
    pub listen: Option<(SocketAddr, Option<headway_web::Token>)>,
    /// The Unix socket that serves the same to the user of this process.
    pub http_socket: Option<PathBuf>,
}

/// Something that happens to a choice.
#[derive(Debug)]
pub enum Event<'a> {
    /// It has begun, and tells programs the state at this address. Threads that are started
    /// now have no privileges.
    On(Option<SocketAddr>),
    /// The choice has changed, or stays for a new reason.
    Decision(&'a DecisionState),
    /// A path of this name fails, or no longer, as a sentence.
    Path(&'a str, &'a str),
    /// New connections are spread: what each path gets of a hundred.
    Shares(&'a [u8]),
    /// Connections of Multipath TCP use these paths, and the others as backups.
    Multipath(&'a [bool]),
    /// Something cannot be done, as a sentence.
    Warning(&'a str),
    /// The state, once an interval.
    State(&'a State),
    /// It has ended, after so many changes; routes hold again that it had replaced, if so.
    Off(u64, bool),
}

/// What measuring all paths once has found.
#[derive(Debug)]
pub struct Measured {
    /// What is known, with the paths in their order, the best first.
    pub snapshot: Snapshot,
    /// Why a path has no answer, by its place in the snapshot.
    pub troubles: Vec<Option<(Vain, String)>>,
}
