//! Two hosts on a wire: threads in network namespaces of their own, which go with them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail};
use headway_units::Rate;
use nix::sched::{CloneFlags, unshare};

/// The name of the interface of both hosts.
pub(super) const INTERFACE: &str = "eth0";
/// Largest IP packet of the wire in bytes.
pub(super) const MTU: u32 = 1500;

type Job = Box<dyn FnOnce() + Send>;

/// A host: its jobs run in its own network namespace.
pub(super) struct Host {
    jobs: Sender<Job>,
    thread: i32,
}

impl Host {
    fn new() -> Result<Host> {
        let (jobs, inbox) = channel::<Job>();
        let (ready, is_ready) = channel();
        thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| nix::unistd::gettid().as_raw());
            if ready.send(made).is_ok() {
                inbox.iter().for_each(|job| job());
            }
        });
        let thread = is_ready.recv()?.context("no network namespace can be made; run this as root")?;
        Ok(Host { jobs, thread })
    }

    /// Runs `work` on this host and waits for the result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, result) = channel();
        let job = Box::new(move || {
            // The one who asked waits for it.
            let _ = done.send(work());
        });
        let ended = || anyhow!("the thread of a host has ended");
        self.jobs.send(job).map_err(|_| ended())?;
        result.recv().map_err(|_| ended())?
    }

    /// Runs `ip` or `tc` on this host.
    pub(super) fn command(&self, line: String) -> Result<()> {
        self.run(move || {
            let mut words = line.split(' ');
            let output = Command::new(words.next().unwrap_or_default())
                .args(words)
                .output()
                .with_context(|| format!("cannot run `{line}`"))?;
            if !output.status.success() {
                bail!("`{line}`: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            Ok(())
        })
    }
}

/// A sender, and the next hop.
pub(super) struct Wire {
    pub(super) sender: Host,
    pub(super) hop: Host,
}

impl Wire {
    /// Connects two new hosts, without segmentation offloads.
    pub(super) fn new() -> Result<Wire> {
        let wire = Wire { sender: Host::new()?, hop: Host::new()? };
        let thread = wire.hop.thread;
        wire.sender
            .command(format!("ip link add {INTERFACE} type veth peer name {INTERFACE} netns {thread}"))?;
        for (host, last) in [(&wire.sender, 1), (&wire.hop, 2)] {
            host.command("ip link set lo up".to_owned())?;
            host.run(|| {
                headway_lab::offloads_off(INTERFACE);
                Ok(())
            })?;
            host.command(format!("ip link set {INTERFACE} mtu {MTU} address 02:00:00:00:79:0{last}"))?;
            host.command(format!("ip addr add 10.79.0.{last}/24 dev {INTERFACE}"))?;
            host.command(format!("ip link set {INTERFACE} up"))?;
            // Nobody has to ask for hardware addresses.
            let other = 3 - last;
            host.command(format!(
                "ip neigh replace 10.79.0.{other} lladdr 02:00:00:00:79:0{other} dev {INTERFACE} nud permanent"
            ))?;
        }
        Ok(wire)
    }

    /// Gives the sender a line of this rate to fill, as a lab does; behind the wire, [`behind_line`] is it.
    ///
    /// [`behind_line`]: super::udp::behind_line
    pub(super) fn set_line(&self, line: Rate) -> Result<()> {
        self.sender.command(format!("ip link set {INTERFACE} alias headway-line={}", line.bps()))
    }

    /// Returns the address of the sender with a port.
    pub(super) fn sender_address(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 79, 0, 1), port)
    }

    /// Returns the address of the next hop with a port.
    pub(super) fn hop_address(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 79, 0, 2), port)
    }
}
