//! The laws of explicit routers as published, without what this project repaired in them (docs/explicit.md).

use headway_arithmetic::explicit::{Law, flags};
use serde::{Deserialize, Serialize};

use crate::{QueueSpecError, require};

/// A part of a law that this project repaired, by what the published one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedPart {
    /// ErrorS integrates the error of the capacity also while senders do not use what it found.
    Integrator,
    /// What found no room does not count as a change of the queue.
    Drops,
    /// RCP may fall to its smallest rate, however few flows there are.
    Fall,
    /// RCP's intervals are as long as the RTT also where flows have less than a packet in it.
    Intervals,
    /// RCP begins with the capacity also after a law of XCP.
    Start,
    /// RCP without a capacity moves its rate once per RTT, counts flows as input over rate, and
    /// ignores growing RTTs.
    Steps,
}

/// What a router does as published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`published` takes true, false or a list of parts, such as [\"integrator\"]")]
pub enum Published {
    /// Everything, or nothing.
    Whole(bool),
    /// These parts.
    Parts(Vec<PublishedPart>),
}

impl PublishedPart {
    /// Returns the switch of the C code.
    const fn flag(self) -> u32 {
        match self {
            PublishedPart::Integrator => flags::PUBLISHED_INTEGRATOR,
            PublishedPart::Drops => flags::PUBLISHED_DROPS,
            PublishedPart::Fall => flags::PUBLISHED_FALL,
            PublishedPart::Intervals => flags::PUBLISHED_INTERVALS,
            PublishedPart::Start => flags::PUBLISHED_START,
            PublishedPart::Steps => flags::PUBLISHED_STEPS,
        }
    }

    /// Returns the parts of a law.
    const fn of(law: Law) -> &'static [PublishedPart] {
        use PublishedPart::{Drops, Fall, Integrator, Intervals, Start, Steps};
        match law {
            Law::Xcp | Law::Wxcp => &[],
            Law::Blind | Law::Kappa => &[Drops],
            Law::Errors => &[Integrator],
            Law::Rcp => &[Fall, Intervals, Start],
            Law::RcpBlind | Law::RcpKappa => &[Drops, Intervals, Start, Steps],
            Law::RcpErrors => &[Integrator, Intervals, Start, Steps],
        }
    }
}

impl Published {
    fn parts(&self, law: Law) -> &[PublishedPart] {
        match self {
            Published::Whole(true) => PublishedPart::of(law),
            Published::Whole(false) => &[],
            Published::Parts(parts) => parts,
        }
    }

    /// Returns the switches of the C code.
    pub(super) fn flags(&self, law: Law) -> u32 {
        self.parts(law).iter().fold(0, |all, part| all | part.flag())
    }

    /// Checks that the law has the parts.
    pub(super) fn validate(&self, law: Law) -> Result<(), QueueSpecError> {
        let has = |part| PublishedPart::of(law).contains(part);
        require(self.parts(law).iter().all(has), "published", parts_that_exist(law))
    }
}

/// Returns which parts a law has, as the end of a sentence.
fn parts_that_exist(law: Law) -> &'static str {
    match law {
        Law::Xcp | Law::Wxcp => "has no parts with this law, which is as published",
        Law::Blind | Law::Kappa => "takes `drops` only with this law",
        Law::Errors => "takes `integrator` only with this law",
        Law::Rcp => "takes `fall`, `intervals` and `start` with this law",
        Law::RcpBlind | Law::RcpKappa => "takes `drops`, `intervals`, `start` and `steps` with this law",
        Law::RcpErrors => "takes `integrator`, `intervals`, `start` and `steps` with this law",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::QueueSpec;
    use super::*;

    fn queue(kind: &str, published: serde_json::Value) -> Result<QueueSpec, serde_json::Error> {
        serde_json::from_value(json!({ "kind": kind, "published": published }))
    }

    fn switches(kind: &str, published: serde_json::Value) -> u32 {
        let spec = queue(kind, published).unwrap();
        spec.validate().unwrap();
        let (law, config) = spec.explicit().unwrap();
        config.at_rate(law, None).flags & !(flags::RESIDUES | flags::PACKETS)
    }

    #[test]
    fn a_law_has_all_parts_or_those_that_are_named() {
        for (kind, whole) in [
            ("xcp", 0),
            ("xcp-b", flags::PUBLISHED_DROPS),
            ("errors", flags::PUBLISHED_INTEGRATOR),
            ("rcp", flags::PUBLISHED_FALL | flags::PUBLISHED_INTERVALS | flags::PUBLISHED_START),
        ] {
            assert_eq!(switches(kind, json!(true)), whole, "{kind}");
            assert_eq!(switches(kind, json!(false)), 0, "{kind}");
        }
        assert_eq!(
            switches("rcp-errors", json!(["integrator", "steps"])),
            flags::PUBLISHED_INTEGRATOR | flags::PUBLISHED_STEPS
        );
    }

    #[test]
    fn parts_of_other_laws_and_unknown_ones_are_refused() {
        for (kind, part) in [("xcp", "drops"), ("xcp-b", "fall"), ("errors", "drops"), ("rcp", "integrator")]
        {
            let error = queue(kind, json!([part])).unwrap().validate().unwrap_err();
            assert_eq!(error.key, "published", "{kind}");
        }
        for wrong in [json!("yes"), json!(["everything"]), json!(1)] {
            let error = queue("rcp", wrong).unwrap_err().to_string();
            assert!(error.contains("`published` takes true, false or a list"), "{error}");
        }
    }
}
