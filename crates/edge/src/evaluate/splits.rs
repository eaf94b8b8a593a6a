//! Connections that a router splits (rule r1, wan F73).

use std::borrow::Cow;

use headway_units::Bytes;

use super::{Action, Case, Proposal, Step, Strategy, Why};
use crate::Split;

/// What a relay of the router holds of a connection in each direction, besides the kernel's buffers: a few
/// milliseconds of a fast link.
pub const RELAY_BUFFER: Bytes = Bytes::new(1 << 16);

/// A receiver whose window is below this part of what its share needs is worth two sockets and
/// two copies of all data.
///
/// Range 0.3 to 0.9.
const SMALL: f64 = 0.7;

/// Splits the next connections of a class from a host whose window has held one; what is split already is
/// told as such. A connection can only be split from its first packet.
#[derive(Clone, Copy, Debug)]
pub struct Splits;

impl Strategy for Splits {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let split = case.split?;
        if case.flow.is_split {
            let why = Why::Other(Cow::Borrowed(match split {
                Split::Always => "the policy has all connections of its class split",
                Split::SmallReceivers => {
                    "the window of its host has held an earlier connection of its class below its share"
                }
            }));
            return Some(Proposal { action: Action::Proxy { buffer: RELAY_BUFFER }, why, ends: false });
        }
        let (window, needed) = (case.flow.held_at?, case.window()?.min(case.ceiling_bytes()?));
        let is_small = split == Split::SmallReceivers && (window.get() as f64) < SMALL * needed.get() as f64;
        (case.means.proxy && is_small).then_some(Proposal {
            action: Action::SplitNext,
            why: Why::HeldByReceiver { window, needed },
            ends: false,
        })
    }
}
