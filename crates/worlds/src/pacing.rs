//! Pacing rates as kernels report them.

use headway_scenario::Scenario;
use headway_units::{Bytes, Rate, WIRE_OVERHEAD};

/// Converts a kernel's pacing rate to a rate on the wire; `None` before there is one.
pub(super) fn pacing(reported: Rate, scenario: &Scenario) -> Option<Rate> {
    // Without a pacing rate, a kernel reports zero or the maximum.
    if [Rate::ZERO, Rate::from_bps(u64::MAX)].contains(&reported) {
        return None;
    }
    // The kernel's rate counts payload.
    let full = Bytes::new(scenario.mtu.into()) + WIRE_OVERHEAD;
    Some(reported.scale(full.get() as f64 / f64::from(scenario.mss())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_on_the_wire_and_absent_before_there_is_one() {
        let text = "duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mb/s\"\n\
                [[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr\"\nrate = \"100 kb/s\"\nsize = \"500 B\"\n";
        let scenario = Scenario::parse(text, std::path::Path::new("x.toml"), &[]).unwrap();
        let rates = [0, 1_448_000, u64::MAX].map(|reported| pacing(Rate::from_bps(reported), &scenario));
        assert_eq!(rates, [None, Some(Rate::from_bps(1_538_000)), None]);
    }
}
