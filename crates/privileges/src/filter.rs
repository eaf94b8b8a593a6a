//! System calls that fail from now on.
//!
//! A list of what is forbidden and not of what is allowed: what the C library and threads use differs between
//! versions and machines, and a call that a new version needs must not end the program.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Calls that start programs, look into other processes, change namespaces, mounts, the kernel or the clock,
/// or are known for mistakes in the kernel.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Commands of bpf(2) that read and write maps, which need an open descriptor of each: look up, update,
/// delete, next key, look up many.
const OF_MAPS: [u64; 5] = [1, 2, 3, 4, 24];

/// What a process may still do beyond what every one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Nothing.
    Nothing,
    /// Use maps of BPF that are open.
    Maps,
    /// Enter namespaces.
    Namespaces,
}

/// Installs the filter where the kernel and the machine have one; without it the process
/// still has no privileges.
pub(crate) fn install(beyond: &Beyond) {
    if let Some(program) = program(beyond) {
        // Fails where another filter, such as that of a container, forbids it.
        let _ = seccompiler::apply_filter(&program);
    }
}

fn program(beyond: &Beyond) -> Option<BpfProgram> {
    let machine: TargetArch = std::env::consts::ARCH.try_into().ok()?;
    let mut rules: BTreeMap<i64, _> = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    if *beyond == Beyond::Namespaces {
        rules.remove(&libc::SYS_setns);
    }
    if *beyond == Beyond::Maps {
        let is_another =
            |command| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, command);
        let others = OF_MAPS.into_iter().map(is_another).collect::<Result<_, _>>().ok()?;
        rules.insert(libc::SYS_bpf, vec![SeccompRule::new(others).ok()?]);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refused, machine).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_filter_for_this_machine() {
        let all = [Beyond::Nothing, Beyond::Maps, Beyond::Namespaces];
        assert!(all.iter().all(|beyond| program(beyond).is_some()));
    }
}
