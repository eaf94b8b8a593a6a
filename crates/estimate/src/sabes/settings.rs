//! The settings of passive estimation.

use headway_units::{Bytes, Duration, Rate, WIRE_OVERHEAD};

/// Where the tap is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// Near the sender: the RTT is that of every segment and its ACK.
    #[default]
    Sender,
    /// Near the receiver: the RTT is that of the handshake (wan 2.10).
    Receiver,
}

/// Which samples an estimate is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Windows {
    /// The samples of the last RTT, at most a second; evaluated at every ACK that advances (wan 2.10).
    Sliding,
    /// Samples of intervals that never overlap and have this length; of a longer interval only the last
    /// RTT counts (wan 2.12).
    Tumbling(Duration),
}

/// Which rules turn samples into an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// As published (wan 2.9, 2.10).
    Literal,
    /// With guards against the known failures of the published rules.
    #[default]
    Guarded,
}

/// The settings of a [`Transfer`](super::Transfer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the tap is.
    pub side: Side,
    /// The rate of the NIC at the tap; samples above it are artefacts of their stamps.
    pub nic: Rate,
    /// Which samples an estimate is made of.
    pub windows: Windows,
    /// Which rules turn samples into an estimate.
    pub form: Form,
    /// Bytes of the link layer that every packet occupies on the wire besides its IP packet;
    /// all rates include them.
    pub framing: Bytes,
    /// The largest number of samples that a window holds; of more, the last ones count.
    pub samples: usize,
}

impl Default for Settings {
    /// Returns settings for a tap near the sender behind a NIC of 1 Gb/s: guarded,
    /// tumbling windows of 200 ms.
    fn default() -> Settings {
        Settings {
            side: Side::Sender,
            nic: Rate::from_bps(1_000_000_000),
            windows: Windows::Tumbling(Duration::from_ms(200)),
            form: Form::Guarded,
            framing: WIRE_OVERHEAD,
            samples: 2_048,
        }
    }
}
