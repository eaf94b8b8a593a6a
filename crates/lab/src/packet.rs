//! A packet as the queue of an emulated link knows it.

use headway_link::Waits;
use headway_queue::Label;
use headway_queue::explicit::Header;
use headway_units::{Bytes, Instant};

/// A frame of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFrame {
    /// Its number.
    pub number: u32,
    /// Whether it carries TCP.
    pub is_tcp: bool,
}

/// A packet of a host or of cross traffic.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it arrived at the queue.
    pub arrived: Instant,
    /// On the wire.
    pub size: Bytes,
    /// Whether it is ECN-capable.
    pub ect: bool,
    /// Whether the queue has marked it CE.
    pub marked: bool,
    /// Its congestion header, if it has one that the discipline reads.
    pub header: Option<Header>,
    /// Its flow, where the discipline must know it.
    pub label: Label,
    /// A host's frame; `None` for cross traffic.
    pub frame: Option<HostFrame>,
}

impl Packet {
    /// Creates a packet of cross traffic.
    pub fn new(arrived: Instant, size: Bytes) -> Packet {
        let label = Label { flow: 0, is_scalable: false };
        Packet { arrived, size, ect: false, marked: false, header: None, label, frame: None }
    }

    /// Returns what a discipline sees of an arriving packet.
    pub(crate) fn seen(&mut self) -> headway_queue::Packet<'_> {
        let flow = self.header.is_some().then_some(self.label.flow);
        headway_queue::Packet { size: self.size, ect: self.ect, header: self.header.as_mut(), flow }
    }
}

impl Default for Packet {
    fn default() -> Packet {
        Packet::new(Instant::ZERO, Bytes::ZERO)
    }
}

impl Waits for Packet {
    fn size(&self) -> Bytes {
        self.size
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn label(&self) -> Label {
        self.label
    }
}
