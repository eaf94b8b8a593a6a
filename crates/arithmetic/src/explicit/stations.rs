//! How many stations an 802.11 station has heard.

/// Most stations that are told apart.
const MOST: usize = 64;

/// The distinct addresses heard in a control interval: the n of WXCP (xcp-rcp 2.11).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Stations {
    address: [u64; MOST],
    count: u32,
}

unsafe extern "C" {
    safe fn headway_explicit_hear(stations: &mut Stations, address: u64);
}

impl Default for Stations {
    fn default() -> Stations {
        Stations { address: [0; MOST], count: 0 }
    }
}

impl Stations {
    /// A frame from `address`, 48 bits, was heard, wherever it goes.
    pub fn hear(&mut self, address: u64) {
        headway_explicit_hear(self, address);
    }

    /// Returns the number of distinct addresses, at most 64.
    pub fn count(&self) -> u32 {
        self.count
    }
}
