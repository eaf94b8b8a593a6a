//! Links, addresses and settings of a node's interfaces.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use headway_telemetry::ethtool;

use crate::error::Error;

/// `ETHTOOL_S*` requests that turn an offload off with value zero, ordered so that none depends on a later
/// one. With offloads on, hosts hand the emulator packets larger than the MTU or without checksums.
const OFFLOADS: [(u32, &str); 6] = [
    (0x001f, "tcp segmentation"),
    (0x0024, "generic segmentation"),
    (0x002c, "generic receive"),
    (0x0019, "scatter-gather"),
    (0x0017, "transmit checksums"),
    (0x0015, "receive checksums"),
];

/// Runs the lines of `batch` through `ip` in this process's network namespace; `node` is named in errors.
pub(crate) fn ip(node: &str, batch: &str) -> Result<(), Error> {
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.args(["-batch", "-"]).stdout(Stdio::null());
        Ok(command)
    };
    ip_with(command, node, batch)
}

/// Feeds the lines of `batch` to `ip -batch -`; `command` creates the command from a program name.
pub(crate) fn ip_with(
    command: impl Fn(&'static str) -> Result<Command, Error>,
    node: &str,
    batch: &str,
) -> Result<(), Error> {
    let mut child = spawn_ip(command)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(batch.as_bytes()).map_err(Error::system("write to `ip`"))?;
    }
    let output = child.wait_with_output().map_err(Error::system("wait for `ip`"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Error::Ip { node: node.to_owned(), message })
}

/// Returns what `ip` prints with these arguments.
pub(crate) fn ip_output(args: &[&str]) -> Result<String, Error> {
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::piped());
        Ok(command)
    };
    let output = spawn_ip(command)?.wait_with_output().map_err(Error::system("wait for `ip`"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn spawn_ip(command: impl Fn(&'static str) -> Result<Command, Error>) -> Result<std::process::Child, Error> {
    // An ordinary user's PATH may lack the folders of system programs.
    for program in ["ip", "/usr/sbin/ip", "/sbin/ip"] {
        let spawned = command(program)?.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        match spawned {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other.map_err(Error::system("run `ip`")),
        }
    }
    Err(Error::NoIp)
}

/// Returns the name of the interface with this number in this process's network namespace.
pub(crate) fn name_of(index: u32) -> io::Result<String> {
    let name = nix::net::if_::if_indextoname(index)?;
    // What this version of `nix` returns for a number that no interface has.
    if name.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENXIO));
    }
    Ok(name.to_string_lossy().into_owned())
}

/// Turns off all offloads of an interface in this thread's network namespace, as far as that can be done.
pub fn offloads_off(name: &str) {
    for (request, what) in OFFLOADS {
        if let Err(error) = ethtool::value(name, request, 0) {
            tracing::warn!("{name}: cannot turn {what} offload off: {error}");
        }
    }
}

/// Writes settings below `/proc/sys/net` of this process's network namespace and skips
/// those that do not exist.
pub(crate) fn sysctl(settings: &[(&str, &str)]) -> Result<(), Error> {
    for (key, value) in settings {
        let path = Path::new("/proc/sys/net").join(key);
        match fs::write(&path, value) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(|e| Error::file("write", &path, e))?,
        }
    }
    Ok(())
}

/// Whether this kernel has IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}
