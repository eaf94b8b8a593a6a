//! Random cases for links of a constant rate.

use headway_queue::QueueSpec;
use proptest::prelude::*;
use serde_json::json;

use super::reference::Offered;

/// Disciplines of all kinds with room for 40 kB.
pub(crate) fn disciplines() -> impl Strategy<Value = QueueSpec> {
    let keys = [
        json!({ "kind": "drop-tail" }),
        json!({ "kind": "step", "threshold": "9 kB" }),
        json!({ "kind": "ramp", "min": "5 kB", "max": "20 kB", "probability": 0.5 }),
        json!({ "kind": "red", "min": "5 kB", "max": "15 kB" }),
        json!({ "kind": "codel" }),
        json!({ "kind": "pie" }),
        json!({ "kind": "dualpi2" }),
        json!({ "kind": "fq-codel" }),
    ];
    prop::sample::select(keys.to_vec()).prop_map(|mut keys| {
        keys["limit"] = "40 kB".into();
        serde_json::from_value(keys).expect("the keys are right")
    })
}

/// Packets of six flows, a third of them in bursts.
pub(crate) fn packets() -> impl Strategy<Value = Vec<Offered>> {
    let packet = (0_u64..400_000, 64_u64..1_539, any::<bool>(), 0_u32..6);
    prop::collection::vec(packet, 1..300).prop_map(|packets| {
        let mut at = 0;
        let packets = packets.into_iter().enumerate().map(|(number, (gap, size, ect, flow))| {
            at += if gap % 3 == 0 { 0 } else { gap };
            Offered { number, at, size, ect, flow }
        });
        packets.collect()
    })
}

/// Rates of 1 Mb/s to 1 Gb/s, slow ones as often as fast ones: CoDel marks where packets
/// have waited for 100 ms.
pub(crate) fn rates() -> impl Strategy<Value = u64> {
    (0_u32..10, 1_000_000_u64..2_000_000).prop_map(|(shift, rate)| rate << shift)
}

/// The rate and the burst of a policer, if there is one.
pub(crate) fn policers() -> impl Strategy<Value = Option<(u64, u64)>> {
    prop::option::of((1_000_000_u64..1_000_000_000, 9_038_u64..60_000))
}
