//! Network namespaces without names: each is held by a small process and goes when that goes.

use std::ffi::CStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{ForkResult, fork, getegid, geteuid, getpid, getppid};

use crate::error::Error;
use crate::interface;
use crate::process::Process;
use crate::state::Node;

/// Moves this process, which must have one thread, into a new network namespace; through a new user
/// namespace when that is the only way. Returns whether it was.
pub(crate) fn enter_router() -> Result<bool, Error> {
    let Err(network) = unshare(CloneFlags::CLONE_NEWNET) else { return Ok(false) };
    let (uid, gid) = (geteuid(), getegid());
    let user = |user: io::Error| Error::Forbidden { network: network.into(), user };
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|e| user(e.into()))?;
    // Root inside is the caller outside; groups must be given up before a group map may be written.
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

/// A process that holds a node's namespace, with the line on which it reports.
pub(crate) struct Holder {
    pub(crate) process: Process,
    line: BufReader<UnixStream>,
}

impl Holder {
    /// Forks a process into a network namespace of its own; the caller must have one thread.
    pub(crate) fn fork(node: &Node, peer: &Node, mtu: u32) -> Result<Holder, Error> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::system("make a pipe to a node"))?;
        let parent = getpid();
        // SAFETY: this process has one thread, so the child may do everything.
        match unsafe { fork() }.map_err(Error::system("fork"))? {
            ForkResult::Child => {
                drop(ours);
                hold(node, peer, mtu, parent, theirs)
            }
            ForkResult::Parent { child } => {
                drop(theirs);
                let process = Process::of(child.as_raw())
                    .ok_or_else(|| Error::Daemon(format!("the holder of {} ended at once", node.name)))?;
                let mut holder = Holder { process, line: BufReader::new(ours) };
                holder.report()?;
                Ok(holder)
            }
        }
    }

    /// Tells the node that its interface is there and waits until it is configured.
    pub(crate) fn configure(&mut self) -> Result<(), Error> {
        self.line.get_mut().write_all(b"\n").map_err(Error::system("talk to a node"))?;
        self.report()
    }

    fn report(&mut self) -> Result<(), Error> {
        let mut line = String::new();
        self.line.read_line(&mut line).map_err(Error::system("hear from a node"))?;
        match line.trim_end() {
            "ok" => Ok(()),
            "" => Err(Error::Daemon("a node ended during set-up".to_owned())),
            message => Err(Error::Daemon(message.to_owned())),
        }
    }
}

/// The life of a holder.
fn hold(node: &Node, peer: &Node, mtu: u32, parent: nix::unistd::Pid, mut line: UnixStream) -> ! {
    let report = |result: Result<(), Error>, line: &mut UnixStream| {
        let text = match &result {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("{error}\n"),
        };
        if line.write_all(text.as_bytes()).is_err() || result.is_err() {
            exit();
        }
    };
    report(isolate(node, parent), &mut line);
    let mut go = [0u8];
    if line.read_exact(&mut go).is_err() {
        exit();
    }
    report(configure(node, peer, mtu), &mut line);
    drop(line);
    // Keep nothing that another process could wait for: above all not the daemon's pipe to its parent.
    // SAFETY: this process uses no descriptor any more.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
    loop {
        nix::unistd::pause();
    }
}

fn exit() -> ! {
    // SAFETY: ends the process at once, without running the parent's exit handlers.
    unsafe { libc::_exit(1) }
}

fn isolate(node: &Node, parent: nix::unistd::Pid) -> Result<(), Error> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
        .map_err(Error::system("bind a node to its lab"))?;
    // The parent may have died before the line above.
    if getppid() != parent {
        exit();
    }
    let name: &CStr = if node.name == "client" { c"lab-client" } else { c"lab-server" };
    // Only what `ps` shows.
    let _ = nix::sys::prctl::set_name(name);
    unshare(CloneFlags::CLONE_NEWNET).map_err(Error::system("make a node's network namespace"))?;
    interface::sysctl(&[
        // Earlier connections must not influence later ones.
        ("ipv4/tcp_no_metrics_save", "1"),
        // No packets of the system's own: no link-local address, no solicitations, no address check.
        ("ipv6/conf/default/addr_gen_mode", "1"),
        ("ipv6/conf/default/router_solicitations", "0"),
        ("ipv6/conf/default/accept_ra", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv6/conf/all/accept_dad", "0"),
    ])
}

fn configure(node: &Node, peer: &Node, mtu: u32) -> Result<(), Error> {
    let name = if node.name == "client" { "client" } else { "server" };
    interface::offloads_off(INTERFACE)?;
    let mut batch = format!(
        "link set lo up\n\
         link set {INTERFACE} mtu {mtu} address {}\n\
         link set {INTERFACE} up\n\
         addr add {}/24 dev {INTERFACE}\n\
         neigh replace {} lladdr {} dev {INTERFACE} nud permanent\n",
        node.mac, node.v4, peer.v4, peer.mac
    );
    if interface::has_ipv6() {
        batch += &format!(
            "addr add {}/64 dev {INTERFACE} nodad\n\
             neigh replace {} lladdr {} dev {INTERFACE} nud permanent\n",
            node.v6, peer.v6, peer.mac
        );
    }
    interface::ip(name, &batch)
}

/// The name of the one interface of a node.
pub(crate) const INTERFACE: &str = "eth0";

/// Makes `command` run in the namespaces of `holder`.
pub(crate) fn enter(command: &mut Command, holder: Process, rootless: bool) -> Result<(), Error> {
    let open = |kind: &str| {
        let path = format!("/proc/{}/ns/{kind}", holder.pid);
        fs::File::open(&path).map_err(|e| Error::file("open", path.as_ref(), e))
    };
    let user = if rootless { Some(open("user")?) } else { None };
    let network = open("net")?;
    // The files are held, so if the process is the right one now, they are the right ones too.
    if !holder.alive() {
        return Err(Error::Daemon("the node is gone".to_owned()));
    }
    let join = move || {
        if let Some(user) = &user {
            setns(user, CloneFlags::CLONE_NEWUSER)?;
        }
        setns(&network, CloneFlags::CLONE_NEWNET)?;
        Ok(())
    };
    // SAFETY: between fork and exec only `setns` is called, which is a plain system call.
    unsafe { command.pre_exec(join) };
    Ok(())
}

/// All processes whose network namespace is that of `holder`, without the holder itself.
pub(crate) fn inhabitants(holder: Process) -> Vec<Process> {
    let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let Some(home) = link(&holder.pid.to_string()) else { return Vec::new() };
    if !holder.alive() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().into_string().ok()?;
            let number: i32 = pid.parse().ok()?;
            (number != holder.pid && link(&pid)? == home).then_some(())?;
            Process::of(number)
        })
        .collect()
}
