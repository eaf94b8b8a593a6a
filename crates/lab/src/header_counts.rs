//! What a router found in the packets that reached its queue.

use serde::{Deserialize, Serialize};

use crate::congestion_header::{Fault, Found};

/// Packets that reached a queue whose router reads congestion headers, by what it found in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderCounts {
    /// Packets with a header that the router serves.
    pub headers: u64,
    /// Those of which the router changed the feedback.
    pub rewritten: u64,
    /// Packets with a header behind IPv4 options or IPv6 extension headers.
    pub behind_options: u64,
    /// Packets with a header that is not followed by TCP.
    pub other_protocols: u64,
    /// Dropped: the header ends too early.
    pub truncated: u64,
    /// Dropped: the header has another length than 20.
    pub wrong_length: u64,
    /// Dropped: the header is neither XCP's nor RCP's.
    pub unknown_version: u64,
    /// Dropped: the header has an unknown format.
    pub unknown_format: u64,
    /// Dropped: the header is XCP's at a router of RCP, or the other way round.
    pub not_served: u64,
    /// Dropped: the header is in a fragment.
    pub fragments: u64,
}

impl HeaderCounts {
    /// Counts what was found in a packet by a router that serves headers of `versions`.
    pub(crate) fn note(&mut self, found: &Option<Result<Found, Fault>>, versions: &[u8]) {
        match found {
            None => {}
            Some(Ok(found)) => {
                self.behind_options += u64::from(found.options);
                self.other_protocols += u64::from(found.is_other_protocol());
                if versions.contains(&found.header.version) {
                    self.headers += 1;
                } else {
                    self.not_served += 1;
                }
            }
            Some(Err(Fault::Truncated)) => self.truncated += 1,
            Some(Err(Fault::Length)) => self.wrong_length += 1,
            Some(Err(Fault::Version)) => self.unknown_version += 1,
            Some(Err(Fault::Format)) => self.unknown_format += 1,
            Some(Err(Fault::Fragment)) => self.fragments += 1,
        }
    }

    /// Returns the packets that were dropped because of their header.
    pub fn dropped(&self) -> u64 {
        self.truncated
            + self.wrong_length
            + self.unknown_version
            + self.unknown_format
            + self.not_served
            + self.fragments
    }
}
