//! Settings of the processes that a run starts.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use headway_lab::host_processor;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Makes the command die with this process, and detaches it from the terminal so that keys such as
/// Ctrl-C do not reach it.
pub fn die_with_parent(command: &mut Command) {
    let attach = || {
        // SAFETY: system calls with constant arguments.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setsid();
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    unsafe { command.pre_exec(attach) };
}

/// Makes the command run on the processor that the emulator avoids, at the highest priority
/// that the host permits.
///
/// Here sender, receiver and emulator share a few processors; with two real hosts this
/// would not be necessary.
pub fn prioritise(command: &mut Command) {
    let mut processors = CpuSet::new();
    let own = host_processor().is_some_and(|processor| processors.set(processor).is_ok());
    let raise = move || {
        if own {
            // Fails only if the processor has gone offline.
            let _ = sched_setaffinity(Pid::from_raw(0), &processors);
        }
        // SAFETY: system calls with constant arguments and a NUL-terminated path; they may fail without harm.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
            // Niceness only counts within a session; the session's autogroup competes with others by its own
            // weight.
            let group = libc::open(c"/proc/self/autogroup".as_ptr(), libc::O_WRONLY);
            if group >= 0 {
                libc::write(group, c"-20".as_ptr().cast(), 3);
                libc::close(group);
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    unsafe { command.pre_exec(raise) };
}
