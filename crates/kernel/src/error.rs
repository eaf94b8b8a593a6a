//! The errors of this crate, each one sentence with its reason and the next step.

use std::io;
use std::path::PathBuf;

/// The reason why loading or inspecting programs failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Timestamps of routes cannot be changed.
    #[error("cannot give routes timestamps of microseconds, which Linux 6.7 and later have: {0}")]
    Routes(std::io::Error),
    /// The crate was built without the feature `bpf`.
    #[error(
        "this build of Headway has no programs for the kernel: it was made without the feature `bpf`, which `cargo build` has on by default"
    )]
    NotBuilt,
    /// The kernel has no type information (BTF).
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux), which BPF controllers need; use one with CONFIG_DEBUG_INFO_BTF, \
         such as those of Debian, Ubuntu and Fedora"
    )]
    NoBtf,
    /// The kernel does not accept congestion controllers as BPF.
    #[error(
        "this kernel does not support congestion controllers written in BPF; use Linux 6.1 or later with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT"
    )]
    NoStructOps,
    /// The kernel gives a socket too little memory for a connection of TCP Rapid.
    #[error(
        "a connection of TCP Rapid needs {needed} bytes and the kernel gives a socket {given}, so all would become Reno; allow more: \
         sysctl -w net.core.optmem_max=131072"
    )]
    LittleMemory {
        /// Bytes that the kernel gives (`net.core.optmem_max`).
        given: u64,
        /// Bytes that a connection needs.
        needed: u64,
    },
    /// Programs cannot read the kernel's structures of packets.
    #[error(
        "headers and options in packets need Linux 6.2 or later; update the kernel, or use a controller without them, such as \
         ls-dctcp, ls-reno or rapid"
    )]
    NoCasts,
    /// The kernel cannot begin to write TCP options on behalf of a controller.
    #[error(
        "options of TCP for a controller need Linux 6.12 or later; update the kernel, or use XCP and RCP without `--carrier option`"
    )]
    NoTcpOptions,
    /// There is no cgroup of version 2, to which the program for TCP options could be attached.
    #[error(
        "options of TCP need cgroup v2, which cannot be mounted ({0}); use a kernel with CONFIG_CGROUPS and CONFIG_CGROUP_BPF, \
         or XCP and RCP without `--carrier option`"
    )]
    NoCgroup(io::Error),
    /// Missing privileges.
    #[error(
        "loading programs into the kernel needs root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN on the host); run it with sudo, \
         in a container with a seccomp filter that allows bpf"
    )]
    Forbidden,
    /// A controller of this name is already registered.
    #[error(
        "a congestion controller named {0} is registered already, by {1}; end that first, \
         or see what is on with `headway cc status`"
    )]
    NameTaken(String, String),
    /// A name that the kernel does not accept.
    #[error("`{0}` cannot name a congestion controller: use 1 to 15 letters, digits or `_`")]
    BadName(String),
    /// Another process is the middlebox of this network namespace.
    #[error(
        "process {pid} is the edge of this network namespace already, between {lan} and {wan}; end that first"
    )]
    EdgeTaken {
        /// That process.
        pid: u32,
        /// Its interfaces.
        lan: String,
        /// The other one.
        wan: String,
    },
    /// The programs or notes lack a part that they always have: a bug in this crate.
    #[error("internal error: {0}")]
    Internal(String),
    /// The kernel rejected the programs.
    #[cfg(feature = "bpf")]
    #[error(
        "the kernel refused {name}: {reason}{objection}; please report this with the kernel's version, `uname -r`"
    )]
    Refused {
        /// The controller's name.
        name: String,
        /// The error from libbpf.
        reason: libbpf_rs::Error,
        /// What the verifier said last, in parentheses, if it said something.
        objection: String,
    },
    /// A BPF query failed.
    #[cfg(feature = "bpf")]
    #[error("cannot {action}: {reason}")]
    Bpf {
        /// The action that failed.
        action: &'static str,
        /// The error from libbpf.
        reason: libbpf_rs::Error,
    },
    /// A file operation failed.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error from the system.
        reason: io::Error,
    },
    /// An interface cannot be used.
    #[error("cannot use the interface {interface}: {reason}")]
    Device {
        /// The interface.
        interface: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder for notes is writable by others than root.
    #[error("{} must be writable by root only; remove it and it will be created again", .0.display())]
    Folder(PathBuf),
    /// Another instance of Headway has made its controller the default here.
    #[error(
        "{name} (process {pid}) is the default of this network namespace; end that first with `headway cc stop {name}`"
    )]
    DefaultTaken {
        /// The process of that instance.
        pid: u32,
        /// The controller of that instance.
        name: String,
    },
}

impl Error {
    /// For `map_err`: wraps the failure of `action` on a file.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |reason| Error::File { action, path, reason }
    }

    /// For `map_err`: wraps the failure of a BPF query.
    #[cfg(feature = "bpf")]
    pub(crate) fn bpf(action: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
        move |reason| Error::Bpf { action, reason }
    }
}
