//! Integer arithmetic shared by the kernel and the simulator: plain C headers in `c/`, with a safe Rust interface.
//!
//! The headers compile as BPF, in a kernel module and here, and use no kernel types. Windows in bytes are in Q9,
//! that is with nine fraction bits.

pub mod explicit;
mod ls_aimd;
mod numbers;
pub mod rapid;

pub use ls_aimd::{
    Ack, Algorithm, Config, LARGEST_WINDOW, LsAimd, MAX_STRETCH, SCALE_ONE, UNLIMITED, add, automatic_scale,
    growth_exponent,
};
pub use numbers::{FRACTION_BITS, average, exp2_negative, log2, product, scale};

/// The headers of LS-AIMD by name, under the MIT licence or GPL-2.0, for crates that compile them elsewhere.
pub const HEADERS: [(&str, &str); 5] = [
    ("cut.h", include_str!("../c/cut.h")),
    ("dctcp_alpha.h", include_str!("../c/dctcp_alpha.h")),
    ("fixed_log2.h", include_str!("../c/fixed_log2.h")),
    ("ls_aimd.h", include_str!("../c/ls_aimd.h")),
    ("numbers.h", include_str!("../c/numbers.h")),
];

/// The headers of explicit routers and of the ends of their connections by name, under the MIT licence or GPL-2.0, for
/// crates that compile them elsewhere.
pub const EXPLICIT_HEADERS: [(&str, &str); 11] = [
    ("explicit.h", include_str!("../c/explicit.h")),
    ("explicit_config.h", include_str!("../c/explicit_config.h")),
    ("explicit_end.h", include_str!("../c/explicit_end.h")),
    ("explicit_feedback.h", include_str!("../c/explicit_feedback.h")),
    ("explicit_measure.h", include_str!("../c/explicit_measure.h")),
    ("explicit_rate.h", include_str!("../c/explicit_rate.h")),
    ("explicit_state.h", include_str!("../c/explicit_state.h")),
    ("explicit_wire.h", include_str!("../c/explicit_wire.h")),
    ("fixed_log2.h", include_str!("../c/fixed_log2.h")),
    ("numbers.h", include_str!("../c/numbers.h")),
    ("wide.h", include_str!("../c/wide.h")),
];

/// Fraction bits of a window in bytes: its smallest step is 2^-9 B (ls-aimd 2.1).
pub const Q9: u32 = 9;
