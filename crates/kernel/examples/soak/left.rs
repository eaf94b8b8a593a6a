//! What programs may leave behind: BPF objects of the kernel, settings of interfaces, defaults, notes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use headway_kernel::{Interface, available, current_default};
use headway_lab::Lab;
use libbpf_rs::query::ProgInfoIter;

type Next = unsafe extern "C" fn(u32, *mut u32) -> i32;

/// The kinds of BPF objects as the kernel's notes on open files name them, and how to list them. Links are
/// those of interfaces, cgroups and controllers; `btf` are descriptions of types.
const KINDS: [(&str, Next); 4] = [
    ("prog", libbpf_sys::bpf_prog_get_next_id),
    ("map", libbpf_sys::bpf_map_get_next_id),
    ("link", libbpf_sys::bpf_link_get_next_id),
    ("btf", libbpf_sys::bpf_btf_get_next_id),
];

pub(crate) type Object = (&'static str, u32);

/// Returns all BPF objects of this host.
pub(crate) fn objects() -> BTreeSet<Object> {
    let mut found = BTreeSet::new();
    for (kind, next) in KINDS {
        let mut id = 0;
        // SAFETY: a system call that writes the number of the next object.
        while unsafe { next(id, &raw mut id) } == 0 {
            found.insert((kind, id));
        }
    }
    found
}

/// Returns the BPF objects that living processes hold open: they are not leftovers.
pub(crate) fn held() -> BTreeSet<Object> {
    let entries =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries(Path::new("/proc")).flat_map(|process| entries(&process.join("fdinfo")));
    // Files that are closed meanwhile have no text.
    files.flat_map(|file| objects_in(&fs::read_to_string(file).unwrap_or_default())).collect()
}

fn objects_in(notes: &str) -> Vec<Object> {
    let object = |line: &str| {
        let (name, id) = line.split_once(":\t")?;
        let (kind, _) = KINDS.into_iter().find(|(kind, _)| name.strip_suffix("_id") == Some(kind))?;
        Some((kind, id.parse().ok()?))
    };
    notes.lines().filter_map(object).collect()
}

/// Describes an object, to find whose it is.
pub(crate) fn describe(&(kind, id): &Object) -> String {
    let program = ProgInfoIter::default().find(|program| kind == "prog" && program.id == id);
    let name = program.map(|program| program.name.to_string_lossy().into_owned());
    format!("{kind} {id} {}", name.unwrap_or_default())
}

/// What is set in a node.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    /// `gso_max_segs`.
    segments: u32,
    /// All features of the interface as `ethtool` prints them.
    features: String,
    /// The controller of new connections.
    default: String,
}

impl Settings {
    pub(crate) fn of(lab: &Lab, node: &str) -> Settings {
        let inside = || (Interface::here("eth0").unwrap().segments, current_default().unwrap());
        let (segments, default) = lab.inside(node, inside).unwrap();
        let shown = lab.command(node, "ethtool", ["-k", "eth0"]).unwrap().output().expect("needs ethtool");
        Settings { segments, features: String::from_utf8(shown.stdout).unwrap(), default }
    }
}

/// Returns what is left of controllers of these names: registrations and notes.
pub(crate) fn traces(names: &[String]) -> Vec<String> {
    let mut found = available().unwrap();
    let notes = fs::read_dir("/run/headway/cc").into_iter().flatten().flatten();
    let texts = notes.map(|note| fs::read_to_string(note.path()).unwrap_or_default());
    found.extend(texts);
    found.retain(|text| names.iter().any(|name| text.contains(name)));
    found
}
