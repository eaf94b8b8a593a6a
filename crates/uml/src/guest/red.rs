//! RED configured by netlink. `tc` cannot express an average that equals the present queue (weight 1), and
//! its `adaptive` flag does not start the kernel's timer.

use super::Failure;
use super::netlink::{self, attribute};
use crate::plan::PlannedRed;

/// Attributes and flags of `include/uapi/linux/pkt_sched.h`.
const TCA_RED_PARMS: u16 = 1;
const TCA_RED_STAB: u16 = 2;
const TCA_RED_MAX_P: u16 = 3;
const TC_RED_ECN: u8 = 1;
const TC_RED_ADAPTATIVE: u8 = 4;
/// Bytes of the table by which the average decays while the queue is empty. It is never used: `tbf` above
/// looks into the queue before it dequeues a packet. RED is not called while the queue is empty and so does
/// not notice idle times.
const STAB: usize = 256;

/// Installs RED on its device.
pub(super) fn install(red: &PlannedRed) -> Result<(), Failure> {
    let probability = (red.probability * f64::from(u32::MAX)) as u32;
    let mut options = attribute(TCA_RED_PARMS, &parameters(red));
    options.extend(attribute(TCA_RED_STAB, &[0; STAB]));
    options.extend(attribute(TCA_RED_MAX_P, &probability.to_ne_bytes()));
    netlink::install("red", &red.device, red.parent, red.handle, &options)
}

/// `struct tc_red_qopt`.
fn parameters(red: &PlannedRed) -> Vec<u8> {
    let mut parameters = Vec::new();
    for value in [red.limit, red.min, red.max] {
        parameters.extend(value.to_ne_bytes());
    }
    // The kernel starts to adapt if the flag is set here; `tc` sets the flag in a separate attribute.
    let flags = if red.ecn { TC_RED_ECN } else { 0 } | if red.adaptive { TC_RED_ADAPTATIVE } else { 0 };
    // Wlog, Plog, and Scell_log, which belongs to the table.
    parameters.extend([red.weight_log, slope(red), 0, flags]);
    parameters
}

/// Plog: the slope of the ramp, probability over width, as a negative power of two.
fn slope(red: &PlannedRed) -> u8 {
    let width = f64::from(red.max.saturating_sub(red.min));
    if width == 0.0 { 0 } else { (width / red.probability).log2().ceil().clamp(0.0, 31.0) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_and_flags_are_where_the_kernel_reads_them() {
        let red = PlannedRed {
            device: "l0-0a".to_owned(),
            parent: 0x10_0001,
            handle: 0x20_0000,
            limit: 5_000_000,
            min: 12_500,
            max: 37_500,
            probability: 0.1,
            weight_log: 4,
            adaptive: true,
            ecn: true,
        };
        assert_eq!(parameters(&red)[12..], [4, 18, 0, TC_RED_ECN | TC_RED_ADAPTATIVE]);
        let present = PlannedRed { weight_log: 0, adaptive: false, ecn: false, ..red };
        assert_eq!(parameters(&present)[12..], [0, 18, 0, 0]);
        assert_eq!(parameters(&present)[..4], 5_000_000_u32.to_ne_bytes());
    }
}
