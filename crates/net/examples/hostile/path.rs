//! Three namespaces in a row: clients, a router with shapers, servers.

use super::{Failure, run};
use std::ffi::OsStr;
use std::process::Command;

/// The namespace of servers and attackers, and the one of the honest clients.
pub(crate) const SERVERS: &str = "s";
pub(crate) const CLIENTS: &str = "c";

/// Shapes both directions. A shaper on the sender would delay packets before the kernel stamps them.
const ROUTER: &str = "r";

/// The servers' address; the router has another one on this link.
pub(crate) const SERVER: &str = "198.18.0.1";

/// The namespaces; deleted on drop.
pub(crate) struct Path {
    prefix: String,
}

impl Path {
    pub(crate) fn make() -> Result<Path, Failure> {
        let path = Path { prefix: format!("hostile{}", std::process::id()) };
        let ip = |words: &str| run(Command::new("ip").args(words.split(' ')));
        for namespace in [SERVERS, ROUTER, CLIENTS] {
            ip(&format!("netns add {}", path.name(namespace)))?;
        }
        let router = path.name(ROUTER);
        run(path.command(ROUTER, "sh").args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]))?;
        for (number, end) in [SERVERS, CLIENTS].into_iter().enumerate() {
            let name = path.name(end);
            ip(&format!("link add {end} netns {router} type veth peer name {end} netns {name}"))?;
            for (at, host) in [(&name, 1), (&router, 2)] {
                ip(&format!("-n {at} addr add 198.18.{number}.{host}/24 dev {end}"))?;
                ip(&format!("-n {at} link set lo up"))?;
                ip(&format!("-n {at} link set {end} up"))?;
                let offloads = ["-K", end, "tso", "off", "gso", "off", "gro", "off"];
                run(path.command_in(at, "ethtool").args(offloads))?;
            }
            ip(&format!("-n {name} route add default via 198.18.{number}.2"))?;
            // A burst of two packets, 0.5 ms: with less, late timers cost rate; with more,
            // packets leave in clumps.
            let shaper = format!("qdisc add dev {end} root tbf rate 50mbit burst 3028 limit 150000");
            run(path.command(ROUTER, "tc").args(shaper.split(' ')))?;
        }
        Ok(path)
    }

    /// Returns a command that runs in one of the namespaces.
    pub(crate) fn command(&self, namespace: &str, program: impl AsRef<OsStr>) -> Command {
        self.command_in(&self.name(namespace), program)
    }

    fn command_in(&self, name: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(program);
        command
    }

    fn name(&self, namespace: &str) -> String {
        format!("{}{namespace}", self.prefix)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for namespace in [SERVERS, ROUTER, CLIENTS] {
            let _ = Command::new("ip").args(["netns", "del", &self.name(namespace)]).output();
        }
    }
}
