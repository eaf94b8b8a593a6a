//! Lines that PAUSE frames fill: installs the discipline `headway_line`, and writes what it has counted.

use std::fs;
use std::path::Path;

use super::netlink::{self, attribute};
use super::{Failure, system};
use crate::plan::{Plan, PlannedLine};

/// The attribute with `struct options` of the module.
const OPTIONS: u16 = 1;
/// Where the module lists the counts of all lines.
const COUNTS: &str = "/proc/headway_line";
/// The line is the root discipline of its device (`TC_H_ROOT`).
const PARENT: u32 = u32::MAX;
const HANDLE: u32 = 0x1_0000;

/// Fills the line at a device of this namespace.
pub(super) fn install(line: &PlannedLine) -> Result<(), Failure> {
    let mut options = line.rate.bps().to_ne_bytes().to_vec();
    options.extend(line.held.ns().unsigned_abs().to_ne_bytes());
    options.extend(u32::try_from(line.largest.get()).unwrap_or(u32::MAX).to_ne_bytes());
    options.extend([0; 4]);
    netlink::install("headway_line", &line.device, PARENT, HANDLE, &attribute(OPTIONS, &options))
}

/// Writes what has left over all lines into the plan's folder, if there are lines.
pub(super) fn write_counts(plan: &Plan, place: &Path) -> Result<(), Failure> {
    let devices = plan.nodes.iter().flat_map(|node| node.lines.iter().map(|line| &line.device));
    let mut text = String::new();
    for (device, counts) in devices.zip(system::read(COUNTS)?.lines()) {
        text += &format!("{device},{}\n", counts.replace(' ', ","));
    }
    if text.is_empty() {
        return Ok(());
    }
    let head = "line,segments,segment_bytes,pause_frames,pause_bytes,dropped_at_first_hop\n";
    let name = place.join(Plan::LINES);
    fs::write(name, head.to_owned() + &text)
        .map_err(|error| Failure::of("cannot write counts".to_owned(), error))
}
