//! What a receiver returns with its next packet (xcp-rcp 2.3).

use super::{Format, Header, VERSION_RCP, VERSION_XCP};

/// The feedback that a receiver owes: for XCP the sum since its last packet, for RCP the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    version: u8,
    value: u32,
}

impl Echo {
    /// Notes the feedback of a packet that arrived. A change of the version forgets what is
    /// owed for the old one.
    pub fn on_packet(&mut self, header: &Header) {
        if header.format != Format::Standard as u8 {
            return;
        }
        if header.version != self.version {
            *self = Echo { version: header.version, value: 0 };
        }
        match header.version {
            VERSION_XCP => {
                let sum = self.value.cast_signed().saturating_add(header.delta());
                self.value = sum.max(-i32::MAX).cast_unsigned();
            }
            VERSION_RCP => self.value = header.rate(),
            _ => {}
        }
    }

    /// Returns the field `reverse` for the next packet, which is then no longer owed: a change of 0, and a
    /// rate of 0, which routers do not grant and senders ignore.
    pub fn take(&mut self) -> u32 {
        std::mem::take(&mut self.value)
    }

    /// Returns the version of the packets that came last, and so of the header to answer with;
    /// `None` before the first.
    pub fn version(&self) -> Option<u8> {
        (self.version != 0).then_some(self.version)
    }
}
