//! Unnamed network namespaces: each is held by a small process and disappears with it.

use std::ffi::CString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::fcntl::AtFlags;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{AccessFlags, ForkResult, faccessat, fork, getegid, geteuid};

use crate::base::{Folder, Lock};
use crate::error::Error;
use crate::interface;
use crate::layout::Place;
use crate::netns_processes::{end_neighbours, own_network};
use crate::process::{Process, close_all_but};
use crate::state::{Network, STATE, State};

/// Moves this process, which must have one thread, into a new network namespace. If that is not permitted, it
/// also creates a new user namespace. Returns whether a user namespace was needed.
pub(crate) fn enter_router() -> Result<bool, Error> {
    let Err(network) = unshare(CloneFlags::CLONE_NEWNET) else { return Ok(false) };
    let (uid, gid) = (geteuid(), getegid());
    let user = |user: io::Error| Error::Forbidden { network: network.into(), user };
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|e| user(e.into()))?;
    // Maps the caller to root; setgroups must be denied before a gid_map may be written.
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ];
    for (path, text) in maps {
        fs::write(path, text).map_err(user)?;
    }
    Ok(true)
}

/// A process that holds a node's namespace, and the socket on which it reports.
///
/// When the socket is closed, because the daemon shuts down or has died, the holder kills the programs in the
/// node and then exits.
pub(crate) struct Holder {
    pub(crate) process: Process,
    pub(crate) network: Network,
    line: BufReader<UnixStream>,
}

impl Holder {
    /// Forks a process into a network namespace of its own; the caller must have one thread.
    ///
    /// The child keeps `lock`, so the lab counts as in use while the child lives.
    pub(crate) fn fork(place: &Place, mtu: u32, lock: &Lock) -> Result<Holder, Error> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::system("make a pipe to a node"))?;
        // SAFETY: this process has one thread, so the child may call anything.
        match unsafe { fork() }.map_err(Error::system("fork"))? {
            ForkResult::Child => {
                drop(ours);
                hold(place, mtu, lock, theirs)
            }
            ForkResult::Parent { child } => {
                drop(theirs);
                let process = Process::of(child.as_raw()).ok_or_else(|| {
                    Error::Daemon(format!("the holder of {} ended at once", place.node.name))
                })?;
                let mut line = BufReader::new(ours);
                let network = serde_json::from_str(&report(&mut line)?).map_err(|e| {
                    Error::Daemon(format!("what the holder of {} says: {e}", place.node.name))
                })?;
                Ok(Holder { process, network, line })
            }
        }
    }

    /// Tells the holder that its interfaces exist, so that it configures them.
    pub(crate) fn configure(&mut self) -> Result<(), Error> {
        self.line.get_mut().write_all(b"\n").map_err(Error::system("write to a node"))
    }

    /// Waits until the holder has configured its interfaces.
    pub(crate) fn configured(&mut self) -> Result<(), Error> {
        report(&mut self.line).map(|_| ())
    }

    /// Has the holder kill the programs in the node and exit.
    pub(crate) fn dismiss(&self) {
        // Fails only if the holder has exited.
        let _ = self.line.get_ref().shutdown(std::net::Shutdown::Both);
    }
}

/// Reads the holder's report on one step.
fn report(line: &mut BufReader<UnixStream>) -> Result<String, Error> {
    let mut text = String::new();
    line.read_line(&mut text).map_err(Error::system("read from a node"))?;
    match text.trim_end_matches('\n') {
        "" => Err(Error::Daemon("a node ended during set-up".to_owned())),
        text => text.strip_prefix(OK).map(str::to_owned).ok_or_else(|| Error::Daemon(text.to_owned())),
    }
}

/// Prefix of a success report.
const OK: &str = "ok ";

/// The body of a holder process.
fn hold(place: &Place, mtu: u32, lock: &Lock, mut line: UnixStream) -> ! {
    let tell = |result: Result<String, Error>, line: &mut UnixStream| {
        let text = match &result {
            Ok(answer) => format!("{OK}{answer}\n"),
            Err(error) => format!("{error}\n"),
        };
        if line.write_all(text.as_bytes()).is_err() || result.is_err() {
            exit();
        }
    };
    tell(isolate(place), &mut line);
    let mut go = [0u8];
    if line.read_exact(&mut go).is_err() {
        exit();
    }
    tell(configure(place, mtu).map(|()| String::new()), &mut line);
    // Close everything that another process could be waiting on, above all the daemon's pipe to its parent.
    // SAFETY: none of the three descriptors is used any more.
    unsafe { libc::syscall(libc::SYS_close_range, 0, 2, 0) };
    close_all_but(&[line.as_raw_fd(), lock.0.as_raw_fd()]);
    // The read returns when the daemon closes the socket or dies.
    while line.read(&mut go).is_err_and(|reason| reason.kind() == io::ErrorKind::Interrupted) {}
    end_neighbours();
    exit();
}

fn exit() -> ! {
    // SAFETY: ends the process at once, without running the parent's exit handlers.
    unsafe { libc::_exit(1) }
}

fn isolate(place: &Place) -> Result<String, Error> {
    // For `ps` only, which shows the first 15 characters.
    if let Ok(name) = CString::new(format!("lab-{}", place.node.name)) {
        let _ = nix::sys::prctl::set_name(&name);
    }
    unshare(CloneFlags::CLONE_NEWNET).map_err(Error::system("make a node's network namespace"))?;
    interface::sysctl(&[
        // Cached metrics of earlier connections must not influence later ones.
        ("ipv4/tcp_no_metrics_save", "1"),
        // No packets from the kernel itself: no link-local address, no router solicitations, no
        // duplicate address detection.
        ("ipv6/conf/default/addr_gen_mode", "1"),
        ("ipv6/conf/default/router_solicitations", "0"),
        ("ipv6/conf/default/accept_ra", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv6/conf/all/accept_dad", "0"),
        // Every packet that expires, or finds its port closed, is answered. By default the kernel answers
        // about one per second and destination. The masks are the types of messages that limits apply to;
        // 0 is no ICMPv6 type.
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv4/icmp_ratemask", "0"),
        ("ipv6/icmp/ratelimit", "0"),
        ("ipv6/icmp/ratemask", "0"),
    ])?;
    if place.is_router() {
        interface::sysctl(&ROUTER)?;
    }
    let network = own_network().map_err(Error::system("tell a node's network from others"))?;
    Ok(serde_json::to_string(&network).unwrap_or_default())
}

/// Settings of a node that forwards packets.
const ROUTER: [(&str, &str); 6] = [
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    // Packets may come and go by different links.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
];

fn configure(place: &Place, mtu: u32) -> Result<(), Error> {
    for interface in &place.node.interfaces {
        interface::offloads_off(&interface.name);
    }
    interface::ip(&place.node.name, &place.commands(mtu, interface::has_ipv6()))
}

/// Runs `work` in a thread of its own in a node of a lab; only for labs of root.
pub(crate) fn inside<T: Send>(holder: Process, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let path = format!("/proc/{}/ns/net", holder.pid);
    let network = fs::File::open(&path).map_err(|e| Error::file("open", path.as_ref(), e))?;
    // The file is held open, so if the holder is still the right process, it is its namespace.
    if !holder.alive() {
        return Err(Error::Daemon("the node is gone".to_owned()));
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(network, CloneFlags::CLONE_NEWNET).map_err(Error::system("enter a node"))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes `command` run in a node of a lab; the command fails if the lab is ending by the time it has entered.
pub(crate) fn enter(
    command: &mut Command,
    folder: &Folder,
    state: &State,
    holder: Process,
) -> Result<(), Error> {
    let gone = || Error::Daemon("the node is gone".to_owned());
    let open = |kind: &str| {
        let path = format!("/proc/{}/ns/{kind}", holder.pid);
        fs::File::open(&path).map_err(|e| Error::file("open", path.as_ref(), e))
    };
    let user = if state.rootless { Some(open("user")?) } else { None };
    let network = open("net")?;
    let daemon = state.daemon.open().ok_or_else(gone)?;
    // The files are held open, so if the holder is still the right process, they are its namespaces.
    if !holder.alive() {
        return Err(gone());
    }
    let folder = folder.fd();
    let join = move || {
        if let Some(user) = &user {
            setns(user, CloneFlags::CLONE_NEWUSER)?;
        }
        setns(&network, CloneFlags::CLONE_NEWNET)?;
        // Programs in a node are killed only after the lab was closed or its daemon has died. So a program
        // that is inside and observes neither will be found.
        let open = faccessat(&*folder, STATE, AccessFlags::F_OK, AtFlags::empty()).is_ok();
        if open && !daemon.has_ended() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENETDOWN)) }
    };
    // SAFETY: only plain system calls are made between fork and exec.
    unsafe { command.pre_exec(join) };
    Ok(())
}
