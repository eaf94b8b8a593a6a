//! Connections of TCP as a middlebox sees them (`c/flow_packet.h`, `c/flow_track.h`, `c/flow_class.h`,
//! `c/flow_meter.h`): their handshake, the scales of their windows, their RTT, their class, and what
//! their packets look like.
//!
//! There are no tables here, and times are in ns of any clock. An owner of tables asks
//! [`Packet::kind`] where to look.

mod class;
mod meter;
mod packet;
mod track;

pub use class::{MOST_RULES, Rule, Rules};
pub use meter::Meter;
pub use packet::{Framing, Key, NotSegment, Packet, flag};
pub use track::{Delays, Flow, HALF_OPEN, Half, Kind, LARGEST_RTT, NEAR, Times};

/// The mark of an end without a scale.
const NO_SCALE: u8 = 0xff;

use crate::virtual_queue::VirtualQueue;

unsafe extern "C" {
    static headway_flow_sizes: [u32; 7];
}

/// Returns the sizes of the structures in C and in Rust: key, packet, connection in its handshake,
/// established one, rules, meter, virtual queue.
#[doc(hidden)]
pub fn sizes() -> [(u32, usize); 7] {
    // SAFETY: the array is constant.
    let c = unsafe { headway_flow_sizes };
    let rust = [
        size_of::<Key>(),
        size_of::<Packet>(),
        size_of::<Half>(),
        size_of::<Flow>(),
        size_of::<Rules>(),
        size_of::<Meter>(),
        size_of::<VirtualQueue>(),
    ];
    std::array::from_fn(|index| (c[index], rust[index]))
}
