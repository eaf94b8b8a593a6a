//! What can go wrong, each as one sentence that includes its reason and the next step.

use std::io;
use std::path::PathBuf;

/// Why a controller could not be loaded, or something about one not be found out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux), which BPF controllers need; use one with CONFIG_DEBUG_INFO_BTF, \
         such as those of Debian, Ubuntu and Fedora"
    )]
    NoBtf,
    /// The kernel takes no controllers as BPF.
    #[error(
        "this kernel takes no congestion controllers as BPF; use Linux 6.10 or later with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT"
    )]
    NoStructOps,
    /// The kernel calls controllers in a way that was changed since.
    #[error("this kernel is older than Linux 6.10, the first that tells controllers enough; update it")]
    TooOld,
    /// Not allowed.
    #[error(
        "loading a congestion controller needs root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN on the host); run it with sudo"
    )]
    Forbidden,
    /// There is a controller of this name.
    #[error(
        "a congestion controller named {0} is registered already, by {1}; end that first, \
         or see what is on with `headway cc status`"
    )]
    NameTaken(String, String),
    /// A name the kernel does not take.
    #[error("`{0}` cannot name a congestion controller: use 1 to 15 letters, digits or `_`")]
    BadName(String),
    /// The kernel did not take the programs.
    #[error("the kernel refused {name}: {reason}; RUST_LOG=debug shows what it said")]
    Refused {
        /// The controller.
        name: String,
        /// What libbpf said.
        reason: libbpf_rs::Error,
    },
    /// A question to the kernel about BPF failed.
    #[error("cannot {action}: {reason}")]
    Bpf {
        /// What was tried.
        action: &'static str,
        /// What libbpf said.
        reason: libbpf_rs::Error,
    },
    /// A file resisted.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// Somebody else can write where notes are kept.
    #[error("{} must be a folder that only root can write to; remove it, and it is made again", .0.display())]
    Folder(PathBuf),
    /// Another instance of ours has made its controller the default here.
    #[error(
        "{name} (process {pid}) is the default of this network namespace; end that first with `headway cc stop {name}`"
    )]
    DefaultTaken {
        /// The other's process.
        pid: u32,
        /// The other's controller.
        name: String,
    },
}

impl Error {
    /// For `map_err`: `action` on a file failed.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |reason| Error::File { action, path, reason }
    }

    /// For `map_err`: a question about BPF failed.
    pub(crate) fn bpf(action: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
        move |reason| Error::Bpf { action, reason }
    }
}
