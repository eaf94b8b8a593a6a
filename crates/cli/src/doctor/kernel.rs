//! What the kernel has, and what it lets this process do.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use headway_privileges::{Capability, rights};
use headway_telemetry::{Diagnosis, bpf};

use super::fact::{Fact, Grade};

/// Type information, which programs of BPF are fitted to the kernel with.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Whether users without privileges may load programs; 1 and 2 say no.
const UNPRIVILEGED_BPF: &str = "/proc/sys/kernel/unprivileged_bpf_disabled";
/// The level of lockdown, in brackets among all that there are.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
const SUDO: &str = "run it with sudo";
/// Capabilities that commands make use of.
const CAPABILITIES: [Capability; 5] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
];

pub(super) fn facts() -> Vec<Fact> {
    vec![version(), btf(), programs(), capabilities(), packets(), change(), connections(), cgroup()]
}

/// Returns what a file of the kernel says.
pub(super) fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns what the system says of an error, without its number.
pub(super) fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(text, _)| text.to_lowercase())
}

/// Whether something went well when it was tried, or why not.
fn tried(result: &io::Result<()>) -> String {
    match result {
        Ok(()) => "yes".to_owned(),
        Err(error) => format!("no ({})", said(error)),
    }
}

fn version() -> Fact {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    Fact::new("kernel", format!("Linux {release}, {}", std::env::consts::ARCH))
}

fn btf() -> Fact {
    if Path::new(BTF).is_file() {
        return Fact::new("BTF", BTF);
    }
    let remedy = "use a kernel with CONFIG_DEBUG_INFO_BTF, such as those of Debian, Ubuntu and Fedora";
    let fact = Fact::new("BTF", format!("none ({BTF} is missing)"));
    fact.with(Grade::Fails, &["cc"], "controllers need BTF", remedy)
}

fn programs() -> Fact {
    let loaded = bpf::load();
    let unprivileged = read(UNPRIVILEGED_BPF).unwrap_or_else(|| "unknown".to_owned());
    let lockdown = lockdown();
    let found = format!(
        "a program that does nothing loads: {}; kernel.unprivileged_bpf_disabled is {unprivileged}, lockdown is {lockdown}",
        tried(&loaded)
    );
    let fact = Fact::new("BPF", found);
    let needing = ["edge", "cc"];
    match loaded {
        Ok(()) if lockdown == "confidentiality" => fact.with(
            Grade::Limits,
            &["cc"],
            "`cc status` lists no connections of TCP Rapid under lockdown",
            "boot with `lockdown=integrity`",
        ),
        Ok(()) => fact,
        Err(error) if error.kind() == ErrorKind::PermissionDenied && rights::may_load_programs() => fact.with(
            Grade::Fails,
            &needing,
            "something forbids programs in spite of the capabilities, as the system call filter of a container does",
            "start the container with `--security-opt seccomp=unconfined`, or run it on the host",
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => fact.with(
            Grade::Fails,
            &needing,
            "this user may load no programs into the kernel (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN on the host)",
            SUDO,
        ),
        Err(_) => fact.with(
            Grade::Fails,
            &needing,
            "the kernel takes no programs",
            "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT",
        ),
    }
}

/// Returns the level of lockdown.
fn lockdown() -> String {
    let levels = read(LOCKDOWN).unwrap_or_default();
    let level = levels.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    level.map_or("off", |(level, _)| level).to_owned()
}

fn capabilities() -> Fact {
    let has = rights::effective();
    let names: Vec<String> =
        CAPABILITIES.iter().filter(|one| has.contains(one)).map(ToString::to_string).collect();
    let found = if names.is_empty() { "none that a command uses".to_owned() } else { names.join(", ") };
    Fact::new("capabilities", found)
}

fn packets() -> Fact {
    let (opened, raw) = (rights::open_interfaces(), rights::send_raw());
    let found =
        format!("packets of interfaces can be seen: {}; raw ICMP sent: {}", tried(&opened), tried(&raw));
    let mut fact = Fact::new("raw packets", found);
    let why = |error: &io::Error| match error.kind() {
        ErrorKind::PermissionDenied => ("this user may not see packets (CAP_NET_RAW)", SUDO),
        _ => ("the kernel has no packet sockets", "use a kernel with CONFIG_PACKET"),
    };
    if let Err(error) = &opened {
        let (reason, remedy) = why(error);
        fact = fact
            .with(Grade::Limits, &["passive"], format!("only captures that are there: {reason}"), remedy)
            .with(Grade::Fails, &["edge", "router"], reason, remedy)
            .with(Grade::Limits, &["measure"], format!("not `--gaps pause`: {reason}"), remedy);
    }
    if raw.is_err() {
        let reason = "no probes by ICMP (CAP_NET_RAW)";
        fact = fact.with(Grade::Limits, &["path", "serve"], reason, SUDO).with(
            Grade::Limits,
            &["proxy"],
            "clients' addresses cannot be kept (CAP_NET_RAW)",
            SUDO,
        );
    }
    fact
}

fn change() -> Fact {
    let changed = rights::change_network();
    let fact = Fact::new("network", format!("may be changed: {}", tried(&changed)));
    match changed {
        Ok(()) => fact,
        Err(_) => fact.with(
            Grade::Fails,
            &["edge", "router", "select", "cc"],
            "this user may not change the network (CAP_NET_ADMIN)",
            SUDO,
        ),
    }
}

fn connections() -> Fact {
    match Diagnosis::open().and_then(|mut diagnosis| diagnosis.dump()) {
        Ok(dump) => Fact::new("tcp_diag", format!("lists {} TCP connections", dump.connections.len())),
        Err(error) => Fact::new("tcp_diag", format!("the kernel lists no connections ({})", said(&error)))
            .with(
                Grade::Fails,
                &["flows"],
                "the kernel lists no connections",
                "run `modprobe tcp_diag`, or use a kernel with CONFIG_INET_TCP_DIAG",
            ),
    }
}

fn cgroup() -> Fact {
    let has =
        read("/proc/filesystems").is_some_and(|all| all.lines().any(|line| line.ends_with("\tcgroup2")));
    if has {
        return Fact::new("cgroup v2", "there");
    }
    let (reason, remedy) =
        ("no options of TCP (`--carrier option`)", "use a kernel with CONFIG_CGROUPS and CONFIG_CGROUP_BPF");
    Fact::new("cgroup v2", "none").with(Grade::Limits, &["cc"], reason, remedy)
}
