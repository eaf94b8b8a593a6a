//! Cards of receivers: installs the discipline `headway_card`.

use super::Failure;
use super::netlink::{self, attribute};
use crate::plan::PlannedCard;

/// The attribute with `struct options` of the module.
const OPTIONS: u16 = 1;
/// The card is the root discipline of its device (`TC_H_ROOT`).
const PARENT: u32 = u32::MAX;
const HANDLE: u32 = 0x1_0000;

/// Installs a card on its device.
pub(super) fn install(card: &PlannedCard) -> Result<(), Failure> {
    netlink::install("headway_card", &card.device, PARENT, HANDLE, &attribute(OPTIONS, &options(card)))
}

/// Returns `struct options` of the module.
fn options(card: &PlannedCard) -> Vec<u8> {
    let mut options = card.interval.ns().unsigned_abs().to_ne_bytes().to_vec();
    options.extend(card.jitter.to_ne_bytes());
    options.extend(card.frames.unwrap_or(u32::MAX).to_ne_bytes());
    options.extend(card.seed.to_ne_bytes());
    options.extend(u32::from(card.acks).to_ne_bytes());
    options.extend([0; 4]);
    options
}
