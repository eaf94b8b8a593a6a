//! Set-up before the run: file systems, modules, namespaces and links.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};

use super::Failure;
use crate::plan::{Plan, PlannedNode};

/// Where the kernel lists its congestion controls.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Mount point of the host's folder in the guest.
const RESULTS: &str = "/run/results";
/// Directories that may hold `ip` and `tc`.
const PROGRAMS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// Machine-wide settings: the pages that TCP may use. Both ends share this kernel, so the limits
/// are set out of reach.
const MACHINE: [(&str, &str); 1] = [("net/ipv4/tcp_mem", "4000000 6000000 8000000")];
/// Settings of every namespace: forwarding without checks, buffers that never limit, no state kept between
/// connections, and no packets from the kernel itself.
const NAMESPACE: [(&str, &str); 10] = [
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv4/conf/all/accept_local", "1"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv4/tcp_rmem", "4096 131072 2147483647"),
];

/// Setting of the default congestion control.
const CONTROLLER: &str = "net/ipv4/tcp_congestion_control";

/// The limit of open files that `fs.nr_open` allows.
const MAX_FILES: u64 = 1 << 20;

/// Least buffer size when reading a file of the kernel, in bytes.
const READ: usize = 1 << 16;

/// Mounts the file systems that programs expect and the host's folder; returns the mount point of the latter.
pub(super) fn mount_all(folder: &Path) -> Result<PathBuf, Failure> {
    let kinds = [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run"), ("devtmpfs", "/dev")];
    for (kind, place) in kinds {
        mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>)
            .map_err(|error| Failure::of(format!("cannot mount {place}"), error))?;
    }
    for place in ["/run/netns", RESULTS] {
        fs::create_dir_all(place).map_err(|error| Failure::of(format!("cannot make {place}"), error))?;
    }
    mount(Some("none"), RESULTS, Some("hostfs"), MsFlags::empty(), Some(folder))
        .map_err(|error| Failure::of(format!("cannot mount {}", folder.display()), error))?;
    Ok(PathBuf::from(RESULTS))
}

/// Raises the limit of open files as far as the kernel allows: a flow needs two sockets, and the
/// default limit is 1024.
pub(super) fn allow_files() -> Result<(), Failure> {
    let limit = libc::rlimit { rlim_cur: MAX_FILES, rlim_max: MAX_FILES };
    // SAFETY: the structure is valid.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    if result == 0 {
        return Ok(());
    }
    Err(Failure::of("cannot raise the limit of open files".to_owned(), io::Error::last_os_error()))
}

/// Loads a module.
pub(super) fn load(module: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::of(format!("cannot load {}", module.display()), error);
    let file = File::open(module).map_err(failed)?;
    finit_module(&file, c"", ModuleInitFlags::empty()).map_err(|error| failed(error.into()))
}

/// Creates all namespaces and links, and returns a handle of every namespace.
pub(super) fn build(plan: &Plan) -> Result<Vec<File>, Failure> {
    settings(&MACHINE)?;
    allow_controllers(plan)?;
    let names: Vec<String> = plan.nodes.iter().map(|node| format!("netns add {}", node.name)).collect();
    batch("ip", None, &names)?;
    let open = |node: &PlannedNode| {
        let path = Path::new("/run/netns").join(&node.name);
        File::open(&path).map_err(|error| Failure::of(format!("cannot open {}", path.display()), error))
    };
    let handles = plan.nodes.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    for (node, handle) in plan.nodes.iter().zip(&handles) {
        enter(handle)?;
        settings(&NAMESPACE)?;
        settings(&[("net/ipv4/tcp_wmem", &format!("4096 65536 {}", plan.send_buffer))])?;
        for (key, value) in &node.settings {
            settings(&[(key, value)])?;
        }
        if let Some(controller) = &node.controller {
            settings(&[(CONTROLLER, controller)])?;
        }
    }
    batch("ip", None, &plan.wires)?;
    for (node, handle) in plan.nodes.iter().zip(&handles) {
        enter(handle)?;
        if !plan.offloads {
            for device in &node.devices {
                super::device::disable_offloads(device)?;
            }
        }
        batch("ip", Some(&node.name), &node.ip)?;
        batch("tc", Some(&node.name), &node.tc)?;
        for red in &node.red {
            super::red::install(red)?;
        }
        for card in &node.cards {
            super::card::install(card)?;
        }
        for line in &node.lines {
            super::line::install(line)?;
        }
        for route in &node.routes {
            super::route::add(route)?;
        }
        for router in &node.routers {
            super::router::install(router)?;
        }
    }
    Ok(handles)
}

/// Returns the error for a congestion control that the kernel lacks, with a list of those it has.
pub(super) fn missing(controller: &str) -> io::Error {
    let known = fs::read_to_string(AVAILABLE).unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    let sentence = format!(
        "this kernel does not have the congestion control `{controller}`; it has {}",
        known.join(", ")
    );
    io::Error::new(io::ErrorKind::NotFound, sentence)
}

/// Makes the plan's default congestion controls available to namespaces: a namespace may only use one that
/// has been the machine-wide default before.
fn allow_controllers(plan: &Plan) -> Result<(), Failure> {
    let file = Path::new("/proc/sys").join(CONTROLLER);
    let usual = fs::read_to_string(&file)
        .map_err(|error| Failure::of(format!("cannot read {}", file.display()), error))?;
    for controller in plan.nodes.iter().filter_map(|node| node.controller.as_ref()) {
        fs::write(&file, controller).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure(missing(controller).to_string()),
            _ => Failure::of(format!("cannot choose the congestion control `{controller}`"), error),
        })?;
    }
    write(&file, usual.trim_end())
}

/// Moves this process into a namespace.
pub(super) fn enter(namespace: &File) -> Result<(), Failure> {
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|error| Failure::of("cannot enter a namespace".to_owned(), error))
}

fn settings(values: &[(&str, &str)]) -> Result<(), Failure> {
    for (key, value) in values {
        write(&Path::new("/proc/sys").join(key), value)?;
    }
    Ok(())
}

/// Reads a file of the kernel.
pub(super) fn read(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::of(format!("cannot read {path}"), error))
}

/// Writes a value to a file of the kernel.
pub(super) fn write(path: &Path, value: &str) -> Result<(), Failure> {
    fs::write(path, value)
        .map_err(|error| Failure::of(format!("cannot write `{value}` into {}", path.display()), error))
}

/// Runs all lines as a batch of an iproute2 program, optionally in the namespace with this name.
fn batch(program: &str, namespace: Option<&str>, lines: &[String]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    let path = PROGRAMS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists());
    let path = path.ok_or_else(|| Failure(format!("`{program}` is missing: install iproute2")))?;
    let file = format!("/run/{program}.batch");
    write(Path::new(&file), &(lines.join("\n") + "\n"))?;
    let mut command = Command::new(path);
    if let Some(name) = namespace {
        command.args(["-netns", name]);
    }
    let output = command
        .args(["-batch", &file])
        .output()
        .map_err(|error| Failure::of(format!("cannot run {program}"), error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let line = words.rsplit(':').next().and_then(|number| number.trim().parse::<usize>().ok());
    let line = line.and_then(|number| lines.get(number.checked_sub(1)?)).map(String::as_str);
    let words = words.lines().next().unwrap_or_default();
    Err(Failure(format!("`{program} {}` failed: {words}", line.unwrap_or("-batch"))))
}

/// Powers the machine off.
pub(super) fn power_off() -> ! {
    // Files in the host's folder are written already; nothing else is worth keeping.
    let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
    std::process::exit(1)
}

/// Reads a kernel file from its beginning, whatever was read before.
pub(super) fn reread(file: &File, text: &mut String) -> Result<(), Failure> {
    let mut bytes = std::mem::take(text).into_bytes();
    bytes.resize(bytes.capacity().max(READ), 0);
    let mut length = 0;
    loop {
        if length == bytes.len() {
            bytes.resize(length * 2, 0);
        }
        let got = file
            .read_at(&mut bytes[length..], length as u64)
            .map_err(|error| Failure::of("cannot read the records".to_owned(), error))?;
        if got == 0 {
            break;
        }
        length += got;
    }
    bytes.truncate(length);
    *text = String::from_utf8(bytes).map_err(|_| Failure("the counters are not valid text".to_owned()))?;
    Ok(())
}

/// Opens the files with the numbers of packets and bytes that a device of a namespace has sent.
pub(super) fn device_counters(namespace: &File, device: &str) -> Result<[File; 2], Failure> {
    enter(namespace)?;
    // A sysfs mount shows the network namespace of the process that mounted it.
    let place = format!("/run/sys-{device}");
    let failed = |error: io::Error| Failure::of(format!("cannot read the counters of {device}"), error);
    fs::create_dir_all(&place).map_err(failed)?;
    mount(Some("sysfs"), place.as_str(), Some("sysfs"), MsFlags::empty(), None::<&str>)
        .map_err(|error| failed(error.into()))?;
    let open =
        |name: &str| File::open(format!("{place}/class/net/{device}/statistics/{name}")).map_err(failed);
    Ok([open("tx_packets")?, open("tx_bytes")?])
}

/// Reads the number in a kernel file.
pub(super) fn number(file: &File) -> Result<u64, Failure> {
    let mut text = [0; 32];
    let length =
        file.read_at(&mut text, 0).map_err(|error| Failure::of("cannot read a counter".to_owned(), error))?;
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default().trim();
    text.parse().map_err(|_| Failure(format!("`{text}` is not a counter")))
}
