//! Departures of a flow whose controller or pacer schedules each of them.

use headway_control::Departure;
use headway_queue::explicit::Header;

use super::*;

/// The next departure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// When it is wanted (ns); `None` while there is nothing to send.
    pub(super) due: Option<u64>,
    /// When the host's line takes it (ns), once it is due.
    departure: Option<u64>,
    /// Whether there was nothing to send, or no window for it, since the last departure.
    idle: bool,
}

impl Slot {
    /// Creates the slot of a flow that has sent nothing.
    pub(super) fn new(idle: bool) -> Slot {
        Slot { idle, ..Slot::default() }
    }

    /// When the next packet may leave, as far as known (ns).
    pub(super) fn earliest(&self) -> u64 {
        self.departure.or(self.due).unwrap_or(0)
    }
}

impl Sender {
    /// Whether the controller wants to know when its segments arrived.
    pub(crate) fn wants_stamps(&self) -> bool {
        self.wants_stamps
    }

    /// Whether segments leave one by one, because the controller schedules departures or is explicit. Before
    /// each poll the network then asks for [`Sender::due`], and after it for [`Sender::header`].
    #[inline(always)]
    pub(crate) fn sends_one_by_one(&self) -> bool {
        self.one_by_one
    }

    /// Whether segments have congestion headers.
    pub(crate) fn is_explicit(&self) -> bool {
        self.is_explicit
    }

    /// Returns the congestion header of the segment just polled, if it has one.
    pub(crate) fn header(&mut self) -> Option<Header> {
        if self.is_explicit { self.controller.header() } else { None }
    }

    /// Asks the controller, or the pacer, when the next packet is due. Returns that time (ns) and the size of
    /// the packet if it is due now and the host's line does not know yet.
    pub(crate) fn due(&mut self, now: u64) -> Option<(u64, u16)> {
        if self.slot.as_ref()?.departure.is_some() {
            return None;
        }
        let can_send = self.can_send(now);
        let slot = self.slot.as_mut()?;
        if !can_send {
            (slot.due, slot.idle) = (None, true);
            return None;
        }
        let idle = std::mem::take(&mut slot.idle);
        let due = match &self.pacer {
            Some(pacer) if idle => pacer.next().max(now),
            Some(pacer) => pacer.next(),
            None => self.controller.schedule(Instant::from_ns(now), idle).ns(),
        };
        slot.due = Some(due);
        (due <= now).then_some((due, self.size))
    }

    /// The host's line takes the packet that is due at `departure`.
    pub(crate) fn takes_line(&mut self, departure: u64) {
        if let Some(slot) = &mut self.slot {
            slot.departure = Some(departure);
        }
    }

    /// Whether there is something to send, and the window permits it.
    fn can_send(&mut self, now: u64) -> bool {
        if !self.has_window() {
            return false;
        }
        if !self.frto.sends_new_data() && self.next_retransmission().is_some() {
            return true;
        }
        if self.next == self.written {
            self.write(now);
        }
        self.next < self.written.min(self.wnd_end)
    }

    /// Tells the controller that a packet leaves.
    #[inline(never)]
    pub(super) fn note_departure(&mut self, now: u64, seq: u64, size: u16, retransmission: bool) {
        if let Some(slot) = &mut self.slot {
            (slot.due, slot.departure) = (None, None);
            let at = Instant::from_ns(now);
            let full = size == self.size;
            self.controller.on_departure(&Departure { at, segment: seq, retransmission, full });
        }
    }
}
