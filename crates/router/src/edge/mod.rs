//! An edge: holds downloads and uploads at the receive window.

mod capture;
mod default_route;
mod page;
mod peer;
mod policy;
mod probing;
mod run;
mod shaper;
mod signals;
mod splitter;
mod steps;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;

use headway_edge::Policy;
use headway_net::ConnectOptions;
use headway_units::{Bytes, Rate};

pub use run::{Ends, run};
pub use watch::Found;

/// What an edge is to do, and where.
#[derive(Clone)]
pub struct Options {
    /// The interface towards the hosts whose link it is.
    pub lan: String,
    /// The interface towards the link.
    pub wan: String,
    /// The rates of the link towards the hosts and from them, or none if they are to be found.
    pub rates: Option<[Rate; 2]>,
    /// The file with the policy, which is read again when it changes.
    pub policy: Option<PathBuf>,
    /// Whether nothing is to be changed.
    pub dry_run: bool,
    /// Where a page is to be, with the token that its viewers must know.
    pub page: Option<(SocketAddr, Option<headway_web::Token>)>,
    /// The file in which is kept what is known and decided.
    pub history: Option<PathBuf>,
    /// The Unix socket at which others say what the link has left.
    pub signals: Option<PathBuf>,
    /// The hosts beyond the link against which it is measured; the next one is taken when
    /// one does not answer.
    pub probe: Vec<ConnectOptions>,
    /// The most bytes that this may cost in an hour.
    pub probe_budget: Bytes,
    /// The edge at the other end of the link, and the key that both have.
    pub peer: Option<(SocketAddr, headway_net::Token)>,
    /// The most connections that are held. Range 1 to 1 048 576.
    pub connections: u32,
}

/// Something that happens to an edge.
#[derive(Debug)]
pub enum Event<'a> {
    /// It is on, with this policy and a page at this address. Threads that are started
    /// now have no privileges.
    On(&'a Policy, Option<SocketAddr>),
    /// What was found in a second.
    Second(Box<Found>),
    /// Another policy holds from now on, but for what these sentences name.
    Policy(&'a Policy, &'a [String]),
    /// The policy stays as it was, because its file has this mistake.
    Mistake(&'a str),
}
