//! The processes that run in the network namespaces of a lab.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use headway_telemetry::namespace_cookie;

use crate::process::Process;
use crate::state::Network;

/// How long a killed process may take to exit before the search is repeated.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The network namespace of this process.
pub(crate) fn own_network() -> io::Result<Network> {
    Ok(Network { number: fs::metadata("/proc/self/ns/net")?.ino(), cookie: namespace_cookie()? })
}

/// Returns all processes whose network namespace has this inode number, except `except`.
///
/// The number identifies a namespace only as long as something keeps that namespace alive.
pub(crate) fn processes_in(number: u64, except: i32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let inside = |pid: &i32| {
        *pid != except && fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|is| is.ino() == number)
    };
    pids.filter(inside).filter_map(Process::of).collect()
}

/// Kills all other processes in this process's network namespace, including those that they
/// start while this runs.
pub(crate) fn end_neighbours() {
    let Ok(number) = fs::metadata("/proc/self/ns/net").map(|is| is.ino()) else { return };
    let own = std::process::id() as i32;
    // A process that is forked during a scan can be missed, so two empty scans in a row are required.
    let mut quiet = 0;
    while quiet < 2 {
        let found = processes_in(number, own);
        quiet = if found.is_empty() { quiet + 1 } else { 0 };
        kill_all(&found);
    }
}

/// Kills all processes in a network namespace that no holder keeps any more.
pub(crate) fn sweep(network: Network, rootless: bool) {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    loop {
        let found = processes_in(network.number, 0);
        // The number may have been reused for another namespace by now.
        let ours: Vec<Process> =
            found.into_iter().filter(|one| cookie_of(one, rootless) == Some(network.cookie)).collect();
        kill_all(&ours);
        if ours.is_empty() || Instant::now() > deadline {
            return;
        }
    }
}

fn kill_all(processes: &[Process]) {
    let handles: Vec<_> = processes.iter().filter_map(Process::open).collect();
    for handle in &handles {
        // Fails if the process is exiting at this moment.
        let _ = handle.signal(libc::SIGKILL);
    }
    let deadline = Instant::now() + EXIT_TIMEOUT;
    for handle in &handles {
        handle.wait_until(deadline);
    }
}

/// Returns the cookie of a process's network namespace.
fn cookie_of(process: &Process, rootless: bool) -> Option<u64> {
    let open = |kind: &str| File::open(format!("/proc/{}/ns/{kind}", process.pid)).ok();
    let user = if rootless { Some(open("user")?) } else { None };
    let network = open("net")?;
    // The opened files belong to this process only if its number has not been reused.
    if !process.alive() {
        return None;
    }
    let (mut answer, told) = io::pipe().ok()?;
    // SAFETY: the child makes system calls only, as this process may have other threads.
    match unsafe { libc::fork() } {
        ..0 => None,
        0 => tell_cookie(user.as_ref().map(AsRawFd::as_raw_fd), network.as_raw_fd(), told.as_raw_fd()),
        child => {
            drop(told);
            let mut bytes = [0; 8];
            let read = answer.read_exact(&mut bytes);
            // SAFETY: our own child; how it ended does not matter.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            read.ok().map(|()| u64::from_ne_bytes(bytes))
        }
    }
}

/// The body of a child process that enters a network namespace and reports its cookie.
fn tell_cookie(user: Option<RawFd>, network: RawFd, told: RawFd) -> ! {
    // SAFETY: system calls on open descriptors and a buffer of our own.
    unsafe {
        let entered = user.is_none_or(|user| libc::setns(user, libc::CLONE_NEWUSER) == 0)
            && libc::setns(network, libc::CLONE_NEWNET) == 0;
        if entered && let Ok(cookie) = namespace_cookie() {
            libc::write(told, cookie.to_ne_bytes().as_ptr().cast(), 8);
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_what_is_in_the_network_with_this_cookie_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("60");
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(|| Ok(nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?)) };
        let Ok(mut child) = command.spawn() else {
            println!("SKIPPED: this host does not allow network namespaces; run as root");
            return;
        };
        let process = Process::of(child.id() as i32).unwrap();
        let number = fs::metadata(format!("/proc/{}/ns/net", process.pid)).unwrap().ino();
        let cookie = cookie_of(&process, false).unwrap();
        assert_ne!(cookie, own_network().unwrap().cookie);
        assert_eq!(cookie_of(&Process::this().unwrap(), false), Some(own_network().unwrap().cookie));
        sweep(Network { number, cookie: cookie + 1 }, false);
        assert!(child.try_wait().unwrap().is_none(), "a network of another cookie is another one");
        sweep(Network { number, cookie }, false);
        assert!(!process.alive());
        child.wait().unwrap();
    }
}
