//! Processes that a run starts.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use headway_lab::host_processor;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Has the command end with this process, and ignore keys that are pressed in this terminal.
pub fn end_with_this_process(command: &mut Command) {
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

/// Has the command run on a processor of its own, with the highest priority that the host grants.
///
/// Sender, receiver and emulator share few processors here; on two hosts nothing of the kind is needed.
pub fn punctual(command: &mut Command) {
    let mut processors = CpuSet::new();
    let own = host_processor().is_some_and(|processor| processors.set(processor).is_ok());
    let raise = move || {
        if own {
            // Refused only for a processor that has gone meanwhile.
            let _ = sched_setaffinity(Pid::from_raw(0), &processors);
        }
        // SAFETY: system calls with constant arguments and a path that is a C string; what they refuse is no harm.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
            // Niceness only counts within a session; the session's own weight counts against others.
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
