//! Has connections of Multipath TCP use the paths that are worth it, by a child process that keeps the right
//! to set endpoints of the kernel's path manager.
//!
//! Each path is an endpoint, and one that should not carry data now is a backup. The numbers of endpoints say
//! which limit of subflows was there before, so that the next process can restore it when all were killed. An
//! endpoint that goes takes its subflows along, so one from which a connection has its only one stays, and
//! the next process takes it over.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use headway_privileges::{Capability, Deputy, serve};
use headway_telemetry::Diagnosis;
use headway_telemetry::interfaces::addresses;
use headway_telemetry::mptcp::{Endpoint, MOST, PathManager};
use headway_telemetry::netlink::{Netlink, SockProtocol};

use super::file::PathEntry;

/// The number of the endpoint of the first path where the limit was 0: those of other paths follow, and then
/// those for other limits. The kernel begins at 1 where nobody says a number.
const FIRST: u8 = 180;
/// How many numbers there are.
const ALL: u8 = (MOST + 1) * MOST;
/// What a request says of each path.
const BACKUP: u8 = 0;
const USED: u8 = 1;
type Request = [u8; MOST as usize];

/// The process that sets endpoints.
#[derive(Debug)]
pub(super) struct Endpoints(Deputy);

impl Endpoints {
    /// Starts it, after removing what an earlier one has left that was killed. This process must have one
    /// thread, and the lock of those that set routes.
    ///
    /// # Errors
    /// When the kernel has no Multipath TCP, endpoints cannot be changed, or the system makes no process.
    pub(super) fn start(paths: &[PathEntry]) -> Result<Endpoints> {
        let cannot = "cannot set endpoints of Multipath TCP; run it as root on Linux 5.19 or later, or leave out `mptcp`";
        if remove().context(cannot)? {
            tracing::warn!("there were endpoints of a process that was killed; they are removed");
        }
        Ok(Endpoints(Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| work(socket, paths))?))
    }

    /// Has connections use these paths from now on, and others as backups. What the kernel has lost
    /// meanwhile is set again.
    ///
    /// # Errors
    /// When the kernel refuses, or the process has ended.
    pub(super) fn take(&self, used: &[bool]) -> Result<()> {
        let mut request: Request = [BACKUP; MOST as usize];
        request.iter_mut().zip(used).for_each(|(place, used)| *place = if *used { USED } else { BACKUP });
        let done = self.0.ask(&request);
        let done = done.context("the process that sets endpoints has ended; start it again")?;
        done.map_err(anyhow::Error::msg)
    }
}

/// Returns the endpoints of such processes, and which limit was there before them.
fn left(manager: &mut PathManager) -> io::Result<(Vec<Endpoint>, Option<u8>)> {
    let mut found = manager.endpoints()?;
    found.retain(|endpoint| (FIRST..FIRST + ALL).contains(&endpoint.id));
    let limit = found.first().map(|endpoint| (endpoint.id - FIRST) / MOST);
    Ok((found, limit))
}

/// Removes them where no connection fails without, and restores the limit; returns whether any was removed.
fn remove() -> io::Result<bool> {
    let mut manager = PathManager::open()?;
    let (mut found, limit) = left(&mut manager)?;
    limit.map_or(Ok(()), |limit| manager.set_limit(limit))?;
    // What is used is what a connection should be left with.
    found.sort_by_key(|endpoint| !endpoint.is_backup);
    let mut removes = false;
    for endpoint in found {
        if has_others(endpoint.address)? {
            manager.remove(endpoint.id)?;
            removes = true;
        }
    }
    Ok(removes)
}

/// Sets endpoints until the other end of the socket is closed, and removes them then.
fn work(socket: UnixStream, paths: &[PathEntry]) {
    let mut limit = None;
    serve(socket, |request: Request| {
        let mut manager = PathManager::open()?;
        let (found, before) = left(&mut manager)?;
        let limit = *limit.get_or_insert(before.map_or_else(|| manager.limit(), Ok)?);
        let of_path = |(path, said): (&PathEntry, &u8)| endpoint(path, *said == BACKUP);
        let wanted = paths.iter().zip(&request).map(of_path).collect::<io::Result<Vec<_>>>()?;
        // Of interfaces and addresses that are gone.
        for gone in found.iter().filter(|one| !wanted.iter().flatten().any(|wanted| is_same(one, wanted))) {
            manager.remove(gone.id)?;
        }
        let mut done = Ok(());
        for (path, wanted) in paths.iter().zip(wanted) {
            // All that can be: what one path has not keeps no other from it.
            let is_done = wanted.map_or(Ok(()), |wanted| set(&mut manager, &found, limit, wanted));
            done = done.and(is_done.map_err(|error| named(&error, path)));
        }
        let needed = (paths.len() - 1) as u8;
        if limit < needed { done.and(manager.set_limit(needed)) } else { done }
    });
    // What is left is reported when it is started again.
    let _ = remove();
}

/// Whether two have the same address and interface.
fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    (one.address, one.interface) == (other.address, other.interface)
}

/// Sets an endpoint, whose number may be another one, in place of what is there of it among those that were
/// found.
fn set(manager: &mut PathManager, found: &[Endpoint], limit: u8, wanted: Endpoint) -> io::Result<()> {
    let Some(before) = found.iter().find(|one| is_same(one, &wanted)) else {
        let (taken, first) = (manager.endpoints()?, FIRST + limit * MOST);
        let free = (first..first + MOST).find(|id| taken.iter().all(|one| one.id != *id));
        return manager.add(&Endpoint { id: free.ok_or(io::ErrorKind::OutOfMemory)?, ..wanted });
    };
    let wanted = Endpoint { id: before.id, ..wanted };
    if wanted == *before {
        return Ok(());
    }
    // What is in the queue of a path that has become bad would keep all that follows from the application.
    // New subflows have none of it.
    if wanted.is_backup && has_others(wanted.address)? {
        manager.remove(wanted.id)?;
        return manager.add(&wanted);
    }
    manager.set_backup(&wanted)
}

fn named(error: &io::Error, path: &PathEntry) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::AlreadyExists => "its address is an endpoint already (`ip mptcp endpoint`)".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("{}: {why}", path.name))
}

/// Returns the endpoint of a path, without its number; none while it has no address.
fn endpoint(path: &PathEntry, is_backup: bool) -> io::Result<Option<Endpoint>> {
    // The kernel knows an interface that is gone by no number.
    let interface = match &path.interface {
        Some(name) => nix::net::if_::if_nametoindex(name.as_str()).ok(),
        None => Some(0),
    };
    let Some(interface) = interface else { return Ok(None) };
    let of_interface = || -> io::Result<Option<IpAddr>> {
        let all = addresses(&mut Netlink::open(SockProtocol::NetlinkRoute)?)?;
        let all = all.into_iter().filter(|(address, index)| *index == interface && is_global(address));
        // One of IPv4 before one of IPv6.
        Ok(all.map(|(address, _)| address).min())
    };
    let address = path.source.map_or_else(of_interface, |source| Ok(Some(source)))?;
    Ok(address.map(|address| Endpoint { id: 0, address, interface, is_backup }))
}

fn is_global(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// Whether each connection with a subflow from an address has another one, over which it
/// goes on without that.
fn has_others(address: IpAddr) -> io::Result<bool> {
    let all = Diagnosis::open()?.dump()?;
    let subflows = || all.connections.iter().filter_map(|one| Some((one.multipath?, one.local.ip())));
    let has_another = |token| subflows().any(|(other, from)| other == token && from != address);
    let here = subflows().filter(|(_, from)| *from == address);
    Ok(!all.is_interrupted && here.map(|(token, _)| token).all(has_another))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::File;
    use super::*;
    use crate::life::testing::{enter_namespace, ip};

    /// Returns all endpoints and the limit, as `ip` has them.
    fn listed() -> String {
        [ip("mptcp endpoint show"), ip("mptcp limits show")].concat()
    }

    #[test]
    fn endpoints_follow_the_choice_and_all_is_as_before_when_it_ends_or_all_were_killed() {
        if !enter_namespace() {
            return;
        }
        if let Err(reason) = PathManager::open() {
            return println!("skipped: this kernel has no Multipath TCP: {reason}");
        }
        for (number, name) in ["one", "two"].into_iter().enumerate() {
            ip(&format!("link add {name} type veth peer name {name}-far"));
            ip(&format!("link set {name} up"));
            ip(&format!("address add 10.9.{number}.1/24 dev {name}"));
        }
        // What others have set stays.
        ip("mptcp limits set subflows 0 add_addr_accepted 3");
        ip("mptcp endpoint add 10.7.7.7 id 5 signal");
        let before = listed();
        let path = |name: &str| {
            format!("[[path]]\nname = \"{name}\"\nhosts = [\"192.0.2.7\"]\ninterface = \"{name}\"\n")
        };
        let text = format!("mptcp = true\n{}{}", path("one"), path("two"));
        let paths = File::parse(&text, Path::new("paths.toml")).unwrap().path;
        let endpoints = Endpoints::start(&paths).unwrap();
        assert_eq!(listed(), before);
        endpoints.take(&[true, false]).unwrap();
        let found = listed();
        assert!(found.contains("10.9.0.1 id 180 subflow dev one"), "{found}");
        assert!(found.contains("10.9.1.1 id 181 subflow backup dev two"), "{found}");
        assert!(found.contains("subflows 1"), "{found}");
        // Of an interface that has another address now, and of one that is gone and comes again.
        ip("address del 10.9.0.1/24 dev one");
        ip("address add 10.9.0.2/24 dev one");
        ip("link del two");
        endpoints.take(&[false, true]).unwrap();
        let found = listed();
        assert!(found.contains("10.9.0.2 id 180 subflow backup dev one"), "{found}");
        assert!(!found.contains("10.9.0.1 ") && !found.contains("two"), "{found}");
        ip("link add two type veth peer name two-far");
        ip("address add 10.9.1.1/24 dev two");
        endpoints.take(&[true, true]).unwrap();
        let found = listed();
        assert!(found.contains("10.9.1.1 id 181 subflow dev two") && !found.contains("backup"), "{found}");
        ip("mptcp endpoint delete id 181");
        endpoints.take(&[true, true]).unwrap();
        assert_eq!(listed(), found);
        drop(endpoints);
        assert_eq!(listed(), before);
        // One of which all processes were killed, after it had found a limit of 2.
        let left = Endpoint {
            id: FIRST + 2 * MOST + 1,
            address: "10.9.1.1".parse().unwrap(),
            interface: 0,
            is_backup: true,
        };
        let mut manager = PathManager::open().unwrap();
        manager.add(&left).unwrap();
        manager.set_limit(7).unwrap();
        drop(Endpoints::start(&paths).unwrap());
        assert_eq!(listed(), before.replace("subflows 0", "subflows 2"));
        // One that is there is taken over, whatever its number.
        manager.add(&Endpoint { interface: nix::net::if_::if_nametoindex("two").unwrap(), ..left }).unwrap();
        let taken = set(&mut manager, &[left], 2, Endpoint { id: 0, is_backup: false, ..left });
        assert!(taken.is_ok() && listed().contains("10.9.1.1 id 197 subflow dev two"), "{}", listed());
        manager.remove(left.id).unwrap();
        // An address that somebody else has made an endpoint.
        ip("mptcp endpoint add 10.9.1.1 id 6 subflow");
        let refused = Endpoints::start(&paths).unwrap().take(&[true, true]).unwrap_err();
        assert!(refused.to_string().starts_with("two: its address is an endpoint already"), "{refused:#}");
    }
}
