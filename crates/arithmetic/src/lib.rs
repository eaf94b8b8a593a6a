//! Integer arithmetic shared by the kernel and the simulator: plain C headers in `c/`, with a
//! safe Rust interface.
//!
//! The headers compile as BPF, in a kernel module and here, and use no kernel types. Windows in bytes are in
//! Q9, that is with nine fraction bits.
//!
//! # What the headers are
//!
//! Code that has to run in a kernel is C. The headers in `arithmetic/c` use no kernel types, only loops with
//! constant bounds, and no signed 64-bit division. Clang compiles them to BPF (`kernel/bpf`), the kernel's
//! build into the module `headway_ls` and others, and the C compiler into the simulator, so all three run the
//! same code. State and ACK are plain structures. Sequence numbers may count bytes or segments, so none of
//! the three callers converts anything. Only the tests of the headers use double precision.
//!
//! `ls_aimd.h` is LS-AIMD. `rapid.h` is the sender of TCP Rapid; its denoising and its estimates equal those
//! of `estimate` to the bit (`estimate/tests/estimate/rapid.rs`). Both exist because the streams of
//! measurements may be longer than the 192 packets of `rapid.h`, and `estimate` also shows what each pass
//! does. `rapid_departures.h` decides when the next packet is due, and `rapid_flight.h` which packets an ACK
//! settles; its ring of packets belongs to the caller.
//!
//! `explicit_end.h` is what XCP senders and RCP write into the header and what becomes of their window, for
//! BPF, the module `headway_end` and the simulator; for the first two also the window in whole segments, the
//! pace, the RTT and the restart after an idle period. `explicit_wire.h` finds the header in packets, for
//! modules; its tests feed it random bytes. `explicit.h` is a queue of an explicit router: XCP, RCP and
//! their variants. It holds no packets and has no clock: its owner reports arrivals and departures and runs
//! what is due. Its rates and queues have 16 fraction bits and products 128 bits (`wide.h`), because at 10
//! Gb/s the time between packets has only nine bits in the header. `arithmetic/tests/explicit` holds it
//! against double precision.
//!
//! `flow_packet.h` reads a packet of TCP, `flow_track.h` follows its handshake, `flow_class.h` finds its
//! class, and `rwm.h` says how large a window may leave a middlebox; `virtual_queue.h` says which packets it
//! is to mark. They have neither tables nor a clock: BPF has its maps, and the crate `edge` has tables for
//! the simulator and tests.

pub mod explicit;
pub mod flow;
mod ls_aimd;
mod numbers;
pub mod plain;
pub mod rapid;
pub mod rwm;
pub mod virtual_queue;

pub use ls_aimd::{
    Ack, Algorithm, Config, LARGEST_WINDOW, LsAimd, MAX_STRETCH, SCALE_ONE, UNLIMITED, add, automatic_scale,
    growth_exponent,
};
pub use numbers::{FRACTION_BITS, average, exp2_negative, log2, product, scale};

/// Makes a list of headers with their names.
macro_rules! headers {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("../c/", $name)))),+] };
}

/// The headers of LS-AIMD by name, under the MIT licence or GPL-2.0, for crates that compile them elsewhere.
pub const HEADERS: [(&str, &str); 5] = headers! {
    "cut.h", "dctcp_alpha.h", "fixed_log2.h", "ls_aimd.h", "numbers.h",
};

/// The headers of explicit routers and of the ends of their connections by name, under the MIT licence or
/// GPL-2.0, for crates that compile them elsewhere.
pub const EXPLICIT_HEADERS: [(&str, &str); 12] = headers! {
    "explicit.h", "explicit_config.h", "explicit_end.h", "explicit_feedback.h", "explicit_measure.h",
    "explicit_rate.h", "explicit_state.h", "explicit_wire.h", "fixed_log2.h", "ip_wire.h", "numbers.h",
    "wide.h",
};

/// The headers of TCP Rapid by name, under the MIT licence or GPL-2.0, for crates that
/// compile them elsewhere.
pub const RAPID_HEADERS: [(&str, &str); 14] = headers! {
    "bass.h", "excursion.h", "numbers.h", "rapid.h", "rapid_acks.h", "rapid_config.h", "rapid_delay.h",
    "rapid_departures.h", "rapid_flight.h", "rapid_gaps.h", "rapid_repairs.h", "rapid_schedule.h",
    "rapid_start.h", "rapid_state.h",
};

/// Fraction bits of a window in bytes: its smallest step is 2^-9 B (ls-aimd 2.1).
pub const Q9: u32 = 9;
