//! Links with explicit routers: installs the discipline `headway_router`, and reads its records.

use super::netlink::{self, attribute};
use super::{Failure, system};
use crate::plan::PlannedRouter;
use crate::report::Control;

/// The attribute with `struct options` of the module.
const OPTIONS: u16 = 1;
/// Where the module lists the control intervals of all routers.
const RECORDS: &str = "/proc/headway_router";
/// The class of the root discipline below which the router is, and its handle.
const PARENT: u32 = 0x1_0001;
const HANDLE: u32 = 0x10_0000;

/// Installs a router on its device.
pub(super) fn install(router: &PlannedRouter) -> Result<(), Failure> {
    netlink::install("headway_router", &router.device, PARENT, HANDLE, &attribute(OPTIONS, &options(router)))
}

/// Returns `struct options` of the module.
fn options(router: &PlannedRouter) -> Vec<u8> {
    let mut options = router.config.clone();
    options.extend(router.rate.bps().to_ne_bytes());
    options.extend(router.limit.map_or(u64::MAX, |limit| limit.get()).to_ne_bytes());
    options.extend(router.packets.unwrap_or(u32::MAX).to_ne_bytes());
    options.extend(router.direction.to_ne_bytes());
    options
}

/// Returns the control intervals of all routers since the kernel began; `zero` is time zero on its
/// monotonic clock, in ns.
pub(super) fn records(zero: i64) -> Result<Vec<Control>, Failure> {
    let text = system::read(RECORDS)?;
    let line = |line: &str| {
        let (direction, record) = line.split_once(' ')?;
        Some(Control { direction: direction.parse().ok()?, zero, record: record.to_owned() })
    };
    let damaged = || Failure(format!("{RECORDS} has a damaged line"));
    text.lines().map(|text| line(text).ok_or_else(damaged)).collect()
}
