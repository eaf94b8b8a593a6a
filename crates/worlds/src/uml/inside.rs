//! What controllers of the kernel tell of themselves.

use headway_control::Kind;
use headway_record::{Fractional, Inside};
use headway_scenario::FlowController;
use headway_units::Duration;

/// Units of the kernel's alpha of DCTCP (`DCTCP_MAX_ALPHA`), and of that of LS-AIMD (`DCTCP_FRACTION_BITS`).
const DCTCP_PARTS: f64 = 1024.0;
const LS_PARTS: f64 = 1_048_576.0;
/// Parts of a byte in the windows of LS-AIMD.
const Q9: f64 = 512.0;

/// Reads the words of `TCP_CC_INFO`: `struct tcp_dctcp_info` of the kernel, `struct ls_report` of the module
/// `headway_ls`, or `struct rapid_report` of `headway_rapid`. `None` for other controllers, and before the
/// controller tells anything.
pub(super) fn inside(controller: Option<&FlowController>, words: &[u32; 5]) -> Option<Inside> {
    if words.iter().all(|word| *word == 0) {
        return None;
    }
    match controller? {
        FlowController::Kernel(kernel) => kernel.is_fractional().then(|| fractional(words)),
        FlowController::Known(Kind::Dctcp) => {
            Some(Inside { alpha: Some(f64::from(words[1]) / DCTCP_PARTS), ..Inside::default() })
        }
        FlowController::Known(Kind::Rapid(_)) => {
            let ns = u64::from(words[2]) << 32 | u64::from(words[1]);
            Some(Inside { one_way: Some(Duration::from_ns(ns.cast_signed())), ..Inside::default() })
        }
        FlowController::Known(Kind::LsReno(_) | Kind::LsDctcp(_)) => Some(fractional(words)),
        FlowController::Known(_) => None,
    }
}

/// Reads `struct ls_report`.
fn fractional(&[window, ssthresh, add, pace_rtt, alpha]: &[u32; 5]) -> Inside {
    let own = Fractional {
        window: f64::from(window) / Q9,
        ssthresh: (ssthresh < u32::MAX).then(|| f64::from(ssthresh) / Q9),
        add: f64::from(add) / Q9,
        pace_rtt: (pace_rtt > 0).then(|| Duration::from_ns(pace_rtt.into())),
    };
    Inside { alpha: Some(f64::from(alpha) / LS_PARTS), fractional: Some(own), ..Inside::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(kind: Kind) -> FlowController {
        FlowController::Known(kind)
    }

    #[test]
    fn words_are_read_by_the_controller_that_wrote_them() {
        let ls = known(Kind::LsDctcp(Default::default()));
        let told = inside(Some(&ls), &[512 * 2236, u32::MAX, 317_738, 500_000, 1 << 19]).unwrap();
        let own = told.fractional.unwrap();
        // The increase is the vector of ls-aimd 2.7 for an ssthresh of 2236 bytes.
        assert_eq!((told.alpha, own.window, own.ssthresh), (Some(0.5), 2236.0, None));
        assert!((own.add - 620.58).abs() < 0.01 && own.pace_rtt == Some(Duration::from_us(500)));
        let kernel = inside(Some(&known(Kind::Dctcp)), &[1, 256, 0, 0, 0]);
        assert_eq!(kernel.unwrap().alpha, Some(0.25));
        let rapid =
            inside(Some(&known(Kind::Rapid(Default::default()))), &[1, 0u32.wrapping_sub(5), u32::MAX, 0, 0]);
        assert_eq!(rapid.unwrap().one_way, Some(Duration::from_ns(-5)));
        assert_eq!(inside(Some(&known(Kind::Reno)), &[1; 5]), None);
        let [with, without] = ["kernel:fraction-cubic", "kernel:cubic"].map(|name| name.parse().unwrap());
        assert!(inside(Some(&with), &[512; 5]).unwrap().fractional.is_some_and(|own| own.window == 1.0));
        assert_eq!(inside(Some(&without), &[512; 5]), None);
        assert_eq!(inside(Some(&ls), &[0; 5]), None, "before it has begun");
    }
}
