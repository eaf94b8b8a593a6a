//! What the packets of a flow looked like in the last seconds, from sums that only grow.

use headway_arithmetic::flow::Meter as Sums;
use headway_units::Duration;

use super::meter::{Moments, PAUSE, Sums as Parts};
use super::{Features, LimitedBy};

/// A flow is judged by what it sent in one to two times this long.
///
/// Range 2 to 30 s: a person thinks for seconds between two pages.
pub const TURN: Duration = Duration::from_ms(5_000);

/// Where a window began, in ns, and what the sums were then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Begin {
    at: u64,
    sums: Sums,
}

/// The sums of a program of the kernel over the packets of a flow, looked at again and again.
///
/// Like two [`Meter`](super::Meter)s of which one begins every 5 s: what it tells is of the last 5 to 10 s,
/// or of the time since then if nothing has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// When it was looked at last, and what the sums were.
    last: Begin,
    /// The latest turn, and the one before; both empty at first.
    latest: Begin,
    longer: Begin,
}

impl Window {
    /// Takes what the sums are at `now`, in ns, not earlier than before. Returns the bytes
    /// since the last look.
    pub fn look(&mut self, now: u64, sums: &Sums) -> u64 {
        let before = std::mem::replace(&mut self.last, Begin { at: now, sums: sums.at(now) });
        if sums.packets == 0 {
            return 0;
        }
        let since = if self.latest.sums.packets > 0 { self.latest.at } else { sums.first };
        let has_more = sums.packets != self.latest.sums.packets;
        if has_more && now.saturating_sub(since) >= TURN.ns() as u64 {
            (self.longer, self.latest) = (self.latest, self.last);
        }
        sums.bytes.wrapping_sub(before.sums.bytes)
    }

    /// Returns the bytes since the beginning of the flow.
    pub const fn bytes(&self) -> u64 {
        self.last.sums.bytes
    }

    /// Returns what the packets looked like until the last look; none without any.
    pub fn features(&self, limited_by: LimitedBy) -> Option<Features> {
        let (now, Begin { at, sums: before }) = (&self.last.sums, &self.longer);
        if now.packets == 0 {
            return None;
        }
        let is_first = before.packets == 0;
        let since = |of: fn(&Sums) -> u64| of(now).wrapping_sub(of(before));
        let pauses = u64::from(now.pauses.wrapping_sub(before.pauses));
        let packets = since(|sums| sums.packets);
        let slots = u64::from(now.slots.wrapping_sub(before.slots));
        let gaps = packets.saturating_sub(pauses + u64::from(is_first));
        let begun = if is_first { now.first } else { *at };
        let parts = Parts {
            duration: Duration::from_ns(self.last.at.saturating_sub(begun) as i64),
            sizes: Moments::of(packets, [since(|sums| sums.bytes), since(|sums| sums.size_squares)], 1),
            gaps: Moments::of(
                gaps,
                [since(|sums| sums.gaps), since(|sums| sums.gap_squares)],
                Sums::GAP_UNIT,
            ),
            slots: Moments::of_slots(
                slots,
                since(|sums| sums.bytes - sums.slot_bytes),
                since(|sums| sums.slot_squares),
            ),
            busy: u64::from(now.busy.wrapping_sub(before.busy)),
            pauses,
            is_pausing: self.last.at.saturating_sub(now.last) >= PAUSE.ns() as u64,
        };
        Some(parts.features(limited_by))
    }
}
