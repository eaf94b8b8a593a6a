//! The available controllers and their options.

use serde::{Deserialize, Serialize};

/// A congestion controller of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// LS-AIMD Reno.
    LsReno,
    /// LS-AIMD DCTCP.
    LsDctcp,
    /// Reno with a floor of two segments, as a baseline.
    HwReno,
    /// DCTCP with a floor of two segments, as a baseline.
    HwDctcp,
}

impl Controller {
    /// All controllers.
    pub const ALL: [Controller; 4] =
        [Controller::LsReno, Controller::LsDctcp, Controller::HwReno, Controller::HwDctcp];

    /// Returns its name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Controller::LsReno => "ls_reno",
            Controller::LsDctcp => "ls_dctcp",
            Controller::HwReno => "hw_reno",
            Controller::HwDctcp => "hw_dctcp",
        }
    }

    /// Returns its name on the command line.
    pub fn command(self) -> &'static str {
        match self {
            Controller::LsReno => "ls-reno",
            Controller::LsDctcp => "ls-dctcp",
            Controller::HwReno => "hw-reno",
            Controller::HwDctcp => "hw-dctcp",
        }
    }

    /// Returns a one-line description.
    pub fn summary(self) -> &'static str {
        match self {
            Controller::LsReno => "LS-AIMD Reno: halves at marks, windows down to a few bytes",
            Controller::LsDctcp => {
                "LS-AIMD DCTCP: reduces by the fraction of marks, windows down to a few bytes"
            }
            Controller::HwReno => "Reno with ECN and a floor of two segments, to compare with",
            Controller::HwDctcp => "DCTCP with a floor of two segments, to compare with",
        }
    }

    /// Returns the compiled programs.
    #[cfg(feature = "bpf")]
    pub(crate) fn object(self) -> &'static [u8] {
        match self {
            Controller::LsReno => include_bytes!(concat!(env!("OUT_DIR"), "/ls_reno.bpf.o")),
            Controller::LsDctcp => include_bytes!(concat!(env!("OUT_DIR"), "/ls_dctcp.bpf.o")),
            Controller::HwReno => include_bytes!(concat!(env!("OUT_DIR"), "/hw_reno.bpf.o")),
            Controller::HwDctcp => include_bytes!(concat!(env!("OUT_DIR"), "/hw_dctcp.bpf.o")),
        }
    }
}

/// The options of LS-AIMD (`struct ls_options` in `bpf/ls.bpf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LsOptions {
    /// The most segments that the receiver acknowledges with one ACK, 1 to 16: below this window segments are
    /// paced one by one.
    pub delta: u32,
    /// Scale C of the increase in units of 2^-16, 1 to 65536; 0 makes it follow the fraction of marks.
    pub scale: u32,
    /// Minimum window in bytes, 1 to 65536.
    pub floor: u32,
}

impl LsOptions {
    /// C = 1.
    pub const SCALE_ONE: u32 = 1 << 16;

    #[cfg(feature = "bpf")]
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.delta, self.scale, self.floor].iter().flat_map(|value| value.to_ne_bytes()).collect()
    }
}

impl Default for LsOptions {
    fn default() -> LsOptions {
        LsOptions { delta: 2, scale: 0, floor: 2 }
    }
}
