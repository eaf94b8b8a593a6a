//! What a network namespace of one's own can have, tried in one.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use headway_privileges::Deputy;
use headway_telemetry::netlink::{CREATE_NEW, Netlink, SockProtocol, attribute};
use headway_telemetry::{enter_new_namespace, qdisc::Queues};
use serde::{Deserialize, Serialize};

use super::fact::{Fact, Grade};
use super::kernel::said;

/// The queues that commands make, the best fair ones first.
const KINDS: [&str; 4] = ["cake", "fq_codel", "tbf", "htb"];
/// The number of the loopback interface of every network namespace.
const LOOPBACK: u32 = 1;
/// Bytes of `struct ifinfomsg`.
const LINK_HEAD: usize = 16;
/// The kernel may load a module for each.
const PATIENCE: Duration = Duration::from_secs(5);

/// What there was.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    veth: bool,
    /// Those of `KINDS` that the kernel lacks.
    missing: Vec<String>,
}

/// Tries it in a child process; this one must have one thread.
pub(super) fn run() -> Vec<Fact> {
    match ask() {
        Ok(Ok(found)) => vec![namespaces(&found), queues(&found)],
        Ok(Err(reason)) => forbidden(&reason),
        Err(error) => forbidden(&said(&error)),
    }
}

fn ask() -> io::Result<Result<Found, String>> {
    let deputy = Deputy::start_whole(|mut socket: UnixStream| {
        let found = look().map_err(|error| said(&error));
        // A parent that has ended needs no answer.
        let _ = socket.write_all(serde_json::to_string(&found).unwrap_or_default().as_bytes());
    })?;
    let mut socket = deputy.socket().ok_or(io::ErrorKind::NotConnected)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// Enters a new namespace and looks.
fn look() -> io::Result<Found> {
    enter_new_namespace()?;
    let mut queues = Queues::open()?;
    let mut missing = Vec::new();
    for kind in KINDS {
        if !queues.has(LOOPBACK, kind)? {
            missing.push(kind.to_owned());
        }
    }
    let link = attribute(libc::IFLA_LINKINFO, &attribute(libc::IFLA_INFO_KIND, b"veth"));
    let made = Netlink::open(SockProtocol::NetlinkRoute)?.ask(
        libc::RTM_NEWLINK,
        CREATE_NEW,
        &[vec![0; LINK_HEAD], link].concat(),
    );
    Ok(Found { veth: made.is_ok(), missing })
}

fn namespaces(found: &Found) -> Fact {
    if found.veth {
        return Fact::new("namespaces", "of networks can be made, with pairs of interfaces (veth)");
    }
    let fact = Fact::new("namespaces", "of networks can be made, but no pairs of interfaces (veth)");
    without_lab(fact, "the kernel has no veth", "load its module, `modprobe veth`")
}

fn queues(found: &Found) -> Fact {
    let has: Vec<&str> =
        KINDS.into_iter().filter(|kind| !found.missing.iter().any(|it| it == kind)).collect();
    let fact = Fact::new("queues", if has.is_empty() { "none".to_owned() } else { has.join(", ") });
    let lacks = |kind: &str| !has.contains(&kind);
    let fact = match lacks("tbf") || lacks("htb") {
        true => fact.with(
            Grade::Limits,
            &["edge"],
            "no token buckets in front of traffic without windows: the kernel lacks tbf or htb",
            "load them, `modprobe sch_tbf sch_htb`",
        ),
        false => fact,
    };
    match lacks("cake") && lacks("fq_codel") {
        true => fact.with(
            Grade::Limits,
            &["edge"],
            "no fair queues behind its token buckets: the kernel has neither CAKE nor FQ-CoDel",
            "load one, `modprobe sch_fq_codel`",
        ),
        false => fact,
    }
}

fn forbidden(reason: &str) -> Vec<Fact> {
    let fact = Fact::new("namespaces", format!("of networks cannot be made ({reason})"));
    let queues = Fact::new("queues", "not tried: that takes a network namespace").with(
        Grade::Untried,
        &["edge"],
        "its queues were not tried",
        "run `headway doctor` with sudo",
    );
    vec![without_lab(fact, "no network namespace can be made", "run it with sudo"), queues]
}

fn without_lab(fact: Fact, reason: &str, remedy: &str) -> Fact {
    let of_runs = format!("not `--on lab`: {reason}");
    fact.with(Grade::Fails, &["lab", "demo"], reason, remedy).with(
        Grade::Limits,
        &["run", "sweep", "compare"],
        of_runs,
        remedy,
    )
}
