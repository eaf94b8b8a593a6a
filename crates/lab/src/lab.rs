//! The public interface to labs.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headway_record::ControlInterval;
use headway_scenario::Scenario;
use headway_units::Instant;
use nix::fcntl::{Flock, FlockArg};

use crate::base::{Base, Folder, check_name};
use crate::control::{Answer, Request, ask};
pub use crate::control::{LinkStatus, RouterStatus, Status};
use crate::error::Error;
use crate::host::Host;
use crate::interface;
use crate::life::{self, now};
use crate::namespace;
use crate::process::Process;
use crate::spec::{Cross, PathSpec, Spec};
use crate::start::{self, Started};
use crate::state::{Interface, Node, OLD_ROUTERS, OLD_TRUTH, ROUTERS, State, TRUTH};
use crate::truth::Truth;
use crate::truths::Truths;

/// When a lab ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// When it is dropped, or when the process that brought it up exits in any way.
    Owned,
    /// When somebody takes it down.
    Detached,
}

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    state: State,
    folder: Folder,
    /// The daemon, if it is our child.
    child: Option<Child>,
    life: Life,
}

impl Lab {
    /// Brings the network of a scenario up as a lab, with this program as the daemon; the
    /// program must be `headway`.
    ///
    /// # Errors
    /// If a lab cannot have the network, the name is taken, or the host does not allow namespaces.
    pub fn up(scenario: &Scenario, name: &str, life: Life) -> Result<Lab, Error> {
        let program = std::env::current_exe().map_err(Error::system("find this program's file"))?;
        Lab::up_with(&program, scenario, name, life)
    }

    /// Brings a lab up with the daemon of the `headway` binary at `program`.
    ///
    /// # Errors
    /// As for [`Lab::up`].
    pub fn up_with(program: &Path, scenario: &Scenario, name: &str, life: Life) -> Result<Lab, Error> {
        let spec = Spec::of(scenario)?;
        check_name(name)?;
        let Started { folder, state, child } = now(life::up(&Host::for_up(program, &spec)?, name))?;
        let lab = Lab { state, folder, child: Some(child), life: Life::Owned };
        if life == Life::Detached { lab.detach() } else { Ok(lab) }
    }

    /// Keeps the lab up until somebody takes it down.
    ///
    /// # Errors
    /// If the daemon cannot be reached; the lab then ends.
    pub fn detach(mut self) -> Result<Lab, Error> {
        if let Some(child) = &mut self.child {
            start::stay(child)?;
        }
        self.life = Life::Detached;
        Ok(self)
    }

    /// Opens a lab that is already up.
    ///
    /// # Errors
    /// If no lab of this name is up.
    pub fn attach(name: &str) -> Result<Lab, Error> {
        check_name(name)?;
        let not_up = || Error::NotUp(name.to_owned());
        let base = Base::open()?.ok_or_else(not_up)?;
        let folder = base.find(name)?.ok_or_else(not_up)?;
        match State::read(&folder)? {
            Some(state) if !state.ending && state.daemon.alive() => {
                Ok(Lab { state, folder, child: None, life: Life::Detached })
            }
            _ => Err(not_up()),
        }
    }

    /// Returns all labs of this user that are up, sorted by name.
    ///
    /// # Errors
    /// If others can write to the directory of the labs.
    pub fn list() -> Result<Vec<Lab>, Error> {
        Ok(names()?.iter().filter_map(|name| Lab::attach(name).ok()).collect())
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The network with which the lab was brought up.
    pub fn spec(&self) -> &Spec {
        &self.state.spec
    }

    /// All nodes, in the order in which the links of the scenario name them.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.state.nodes.iter().map(|(node, _)| node)
    }

    /// The process of the emulator.
    pub fn daemon(&self) -> Process {
        self.state.daemon
    }

    /// The processes that hold the nodes.
    pub fn holders(&self) -> Vec<Process> {
        self.state.nodes.iter().map(|(_, process)| *process).collect()
    }

    /// Returns the main IPv4 address of a node: the one on its first link in the scenario.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn v4(&self, node: &str) -> Result<Ipv4Addr, Error> {
        Ok(self.node(node)?.0.v4)
    }

    /// Returns the main IPv6 address of a node: the one on its first link in the scenario.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn v6(&self, node: &str) -> Result<Ipv6Addr, Error> {
        Ok(self.node(node)?.0.v6)
    }

    /// Returns the end of a link at a node.
    ///
    /// # Errors
    /// If there is no such node, or the link does not end there.
    pub fn interface(&self, node: &str, link: &str) -> Result<&Interface, Error> {
        let found = self.node(node)?.0.interfaces.iter().find(|interface| interface.link == link);
        found.ok_or_else(|| Error::Link(format!("no link `{link}` ends at `{node}`")))
    }

    /// Returns a command that will run in a node: only its network differs, files and
    /// processes are the host's.
    ///
    /// # Errors
    /// If there is no such node, or the lab has ended.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        node: &str,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Command, Error> {
        let (_, holder) = self.node(node)?;
        let mut command = Command::new(program);
        command.args(args);
        namespace::enter(&mut command, &self.folder, &self.state, *holder)?;
        Ok(command)
    }

    /// Runs `work` in a thread in a node's network namespace and returns its result; only for labs of root.
    ///
    /// # Errors
    /// If there is no such node, or the lab has ended or is not root's.
    pub fn inside<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        namespace::inside(self.node(node)?.1, work)
    }

    /// Makes the receivers of a node's IPv4 connections with its first neighbour acknowledge
    /// every segment at once.
    ///
    /// # Errors
    /// If there is no such node, or the lab has ended.
    pub fn acknowledge_at_once(&self, node: &str) -> Result<(), Error> {
        let (node, _) = self.node(node)?;
        let [a, b, c, _] = node.v4.octets();
        let route = format!("{a}.{b}.{c}.0/24");
        let line =
            format!("route change {route} dev eth0 proto kernel scope link src {} quickack 1\n", node.v4);
        self.configure(&node.name, &line)
    }

    /// Runs the lines of `batch` through `ip -batch` in a node.
    ///
    /// # Errors
    /// If there is no such node, the lab has ended, or `ip` refuses a line.
    pub fn configure(&self, node: &str, batch: &str) -> Result<(), Error> {
        let command = |program| {
            let mut command = self.command(node, program, ["-batch", "-"])?;
            command.stdout(Stdio::null());
            Ok(command)
        };
        interface::ip_with(command, node, batch)
    }

    /// Replaces all cross traffic by the traffic of a scenario with the same links. Returns the time from
    /// which the new traffic applies; `start` and `stop` of its sources count from then.
    ///
    /// # Errors
    /// If the scenario has other links or a value that a lab cannot have, or the lab has ended.
    pub fn set_traffic(&self, scenario: &Scenario) -> Result<Instant, Error> {
        self.since(&Request::SetCross(self.network(scenario)?.cross))
    }

    /// Does what [`Lab::set_traffic`] does, and has the times of links that vary count from then, too.
    ///
    /// # Errors
    /// As for [`Lab::set_traffic`].
    pub fn begin(&self, scenario: &Scenario) -> Result<Instant, Error> {
        self.begin_with(self.network(scenario)?.cross)
    }

    /// Does what [`Lab::begin`] does, with traffic of which each source says its link: routes cannot tell
    /// links apart that have the same ends.
    ///
    /// # Errors
    /// If the lab has ended.
    pub fn begin_with(&self, traffic: Vec<Cross>) -> Result<Instant, Error> {
        self.since(&Request::Begin(traffic))
    }

    /// Replaces rates, delays, queues, losses and NICs by those of a scenario with the same links, all at
    /// the same time, and returns the time from which the change applies. Packets that already have a
    /// departure time keep it.
    ///
    /// # Errors
    /// As for [`Lab::set_traffic`].
    pub fn set_links(&self, scenario: &Scenario) -> Result<Instant, Error> {
        let links = self.network(scenario)?.links.into_iter();
        self.since(&Request::SetPaths(links.map(|link| link.path).enumerate().collect()))
    }

    /// Returns the network of a scenario that has the links of this lab.
    fn network(&self, scenario: &Scenario) -> Result<Spec, Error> {
        let spec = Spec::of(scenario)?;
        let ends = |spec: &Spec| -> Vec<[String; 3]> {
            spec.links.iter().map(|link| [&link.name, &link.from, &link.to].map(String::clone)).collect()
        };
        if ends(&spec) != ends(self.spec()) {
            return Err(Error::Link("the links are not those with which the lab came up".to_owned()));
        }
        Ok(spec)
    }

    /// Replaces the path of a link by what `change` makes of the present one; `None` stands for the only
    /// link. Of two such changes at the same time the second begins with what the first has made.
    ///
    /// # Errors
    /// If `change` fails, a value is out of range, there is no such link, or the lab has ended.
    pub fn change_link<E: From<Error>>(
        &self,
        name: Option<&str>,
        change: impl FnOnce(&PathSpec) -> Result<PathSpec, E>,
    ) -> Result<Instant, E> {
        let path = self.folder.path();
        let failed = |reason: io::Error| Error::file("lock", path, reason);
        let folder = fs::File::open(path).map_err(failed)?;
        let _lock =
            Flock::lock(folder, FlockArg::LockExclusive).map_err(|(_, reason)| failed(reason.into()))?;
        let number = self.spec().link_number(name).map_err(Error::Link)?;
        let changed = change(&self.link(name)?.path)?;
        changed.check(self.spec().mtu).map_err(Error::from)?;
        Ok(self.since(&Request::SetPaths(vec![(number, changed)]))?)
    }

    /// Returns the present configuration and the latest intervals.
    ///
    /// # Errors
    /// If the lab has ended.
    pub fn status(&self) -> Result<Status, Error> {
        match ask(self.folder.path(), &Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns what [`Lab::status`] says about a link; `None` stands for the only one.
    ///
    /// # Errors
    /// If there is no such link, a name is missing where there are several, or the lab has ended.
    pub fn link(&self, name: Option<&str>) -> Result<LinkStatus, Error> {
        let number = self.spec().link_number(name).map_err(Error::Link)?;
        Ok(self.status()?.links.swap_remove(number))
    }

    /// The path of the truth file, which is removed with the lab.
    pub fn truth_path(&self) -> PathBuf {
        self.folder.path().join(TRUTH)
    }

    /// The path of the file with a line of JSON for each control interval of each router, which is
    /// removed with the lab.
    pub fn routers_path(&self) -> PathBuf {
        self.folder.path().join(ROUTERS)
    }

    /// Waits until the truth up to `until` is complete and returns all of it, for a lab of one link; `until`
    /// may be at most a minute ahead.
    ///
    /// A lab drops the oldest part of its truth after an hour or so. For one window of a lab that has been up
    /// for long, [`Lab::truth_between`] is much faster.
    ///
    /// # Errors
    /// If the lab has ended or its file cannot be read.
    pub fn truth_until(&self, until: Instant) -> Result<Truth, Error> {
        self.truth_between(Instant::ZERO, until)
    }

    /// Does what [`Lab::truths_between`] does, for a lab of one link.
    ///
    /// # Errors
    /// If there are several links, the lab has ended or its file cannot be read.
    pub fn truth_between(&self, from: Instant, to: Instant) -> Result<Truth, Error> {
        self.truths_between(from, to)?.into_only()
    }

    /// Waits until `to`, at most a minute ahead, and returns the truth about all links in at least the window
    /// from `from` to `to`.
    ///
    /// # Errors
    /// If the lab has ended or its file cannot be read.
    pub fn truths_between(&self, from: Instant, to: Instant) -> Result<Truths, Error> {
        ask(self.folder.path(), &Request::Sync(to))?;
        let links = &self.spec().links;
        let lanes = 2 * links.len();
        let mut truths = Truths::load_since(&self.truth_path(), from, lanes)?;
        let old = self.folder.path().join(OLD_TRUTH);
        if truths.begins_after(from) && old.exists() {
            truths.prepend(Truths::load_since(&old, from, lanes)?);
        }
        Ok(if let [only] = &links[..] { truths.named(&only.name) } else { truths })
    }

    /// Waits until `to`, at most a minute ahead, and returns the control intervals of routers that ended from
    /// `from` to `to`, each with the name of its link and direction.
    ///
    /// # Errors
    /// If the lab has ended or its files cannot be read.
    pub fn control_between(&self, from: Instant, to: Instant) -> Result<Vec<ControlInterval>, Error> {
        ask(self.folder.path(), &Request::Sync(to))?;
        let mut intervals = Vec::new();
        for name in [OLD_ROUTERS, ROUTERS] {
            let path = self.folder.path().join(name);
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(|e| Error::file("read", &path, e))?,
            };
            for line in text.lines() {
                let interval: ControlInterval =
                    serde_json::from_str(line).map_err(|e| Error::file("read", &path, e.into()))?;
                if (from.ns()..=to.ns()).contains(&interval.end_ns) {
                    intervals.push(interval);
                }
            }
        }
        Ok(intervals)
    }

    /// Waits until the lab has ended, at most `timeout`; returns false if it has not.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.state.daemon.wait_gone(timeout)
    }

    /// Takes the lab down: ends the programs in its nodes, then the nodes, and removes its files.
    ///
    /// # Errors
    /// If it does not end or its files cannot be removed.
    pub fn down(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.life = Life::Detached;
        let ended = match Host::for_down()? {
            Some(host) => now(life::down(&host, &self.state.name, Some(&self.folder))).map(|_| ()),
            None => Ok(()),
        };
        if let Some(mut child) = self.child.take() {
            // If the daemon did not end when asked, end of file on its input asks again.
            drop(child.stdin.take());
            let _ = if ended.is_ok() { child.wait().map(Some) } else { child.try_wait() };
        }
        ended
    }

    fn since(&self, request: &Request) -> Result<Instant, Error> {
        match ask(self.folder.path(), request)? {
            Answer::Since(instant) => Ok(instant),
            other => Err(unexpected(&other)),
        }
    }

    fn node(&self, name: &str) -> Result<&(Node, Process), Error> {
        self.state.nodes.iter().find(|(node, _)| node.name == name).ok_or_else(|| Error::Node {
            name: name.to_owned(),
            nodes: self.nodes().map(|node| format!("`{}`", node.name)).collect(),
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.life == Life::Owned {
            // Callers that need the error call `down`.
            let _ = self.end();
        }
    }
}

/// Takes down whatever is left of a lab, alive or dead; returns false if there is nothing.
///
/// # Errors
/// As for [`Lab::down`].
pub fn down(name: &str) -> Result<bool, Error> {
    check_name(name)?;
    Host::for_down()?.map_or(Ok(false), |host| now(life::down(&host, name, None)))
}

/// Returns the names of all labs of this user, alive or dead.
///
/// # Errors
/// If others can write to the directory of the labs.
pub fn names() -> Result<Vec<String>, Error> {
    Ok(Base::open()?.map_or_else(Vec::new, |base| base.names()))
}

fn unexpected(answer: &Answer) -> Error {
    Error::Daemon(format!("unexpected answer from the lab: {answer:?}"))
}
