//! System calls of a process that only talks over sockets, starts threads and reads files.
//!
//! All others fail as if the kernel did not have them: then C libraries fall back on older ones, so a version
//! that tries a newer call goes on.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// Calls that every machine has.
const CALLS: &[libc::c_long] = &[
    // Sockets, and what waits for them.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    // Files, such as those by which names are resolved.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_unlinkat,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Threads and time.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_prctl,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    // Signals, and who this is.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
];

/// What older machines have in place of some of them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_create,
    libc::SYS_eventfd,
    libc::SYS_pipe,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_dup2,
    libc::SYS_time,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
];
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const OLDER: &[libc::c_long] = &[libc::SYS_newfstatat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const OLDER: &[libc::c_long] = &[];

/// Allows these calls only, where the kernel and the machine have filters.
pub(crate) fn install() {
    if let Some(program) = program() {
        // Fails where another filter, such as that of a container, forbids it.
        let _ = seccompiler::apply_filter(&program);
    }
}

fn program() -> Option<BpfProgram> {
    let machine: TargetArch = std::env::consts::ARCH.try_into().ok()?;
    let calls = CALLS.iter().chain(OLDER);
    let rules: BTreeMap<i64, _> = calls.map(|call| (*call, Vec::new())).collect();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, missing, SeccompAction::Allow, machine).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn what_talks_goes_on_and_the_rest_is_as_if_it_were_not_there() {
        let done = std::thread::spawn(|| {
            nix::sys::prctl::set_no_new_privs().unwrap();
            install();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let talks = std::thread::spawn(move || std::net::TcpStream::connect(address).is_ok());
            let accepted = listener.accept().is_ok() && talks.join().unwrap();
            // SAFETY: plain system calls that would change nothing.
            let others = unsafe {
                [
                    libc::syscall(libc::SYS_unshare, 0),
                    libc::syscall(libc::SYS_io_uring_setup, 0, 0),
                    libc::syscall(libc::SYS_memfd_create, 0, 0),
                    libc::syscall(libc::SYS_flock, listener.as_raw_fd(), 0),
                ]
            };
            let code = std::io::Error::last_os_error().raw_os_error();
            (accepted, others, code)
        });
        let (accepted, others, code) = done.join().unwrap();
        assert!(accepted);
        assert_eq!((others, code), ([-1; 4], Some(libc::ENOSYS)));
    }
}
