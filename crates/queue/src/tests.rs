use serde_json::json;

use super::*;

fn read(value: serde_json::Value) -> Result<QueueSpec, serde_json::Error> {
    serde_json::from_value(value)
}

#[test]
fn specifications_read_back_as_they_are_written() {
    let texts = [
        json!({ "kind": "drop-tail", "limit": "250 kB" }),
        json!({ "kind": "step", "threshold": "12.5 kB", "packets": 100 }),
        json!({ "kind": "red", "limit": "5 MB", "min": "12.5 kB", "max": "37.5 kB", "adaptive": true }),
        json!({ "kind": "ramp", "min": "12.5 kB", "max": "25 kB", "probability": 0.5 }),
        json!({ "kind": "codel", "target": "1 ms" }),
        json!({ "kind": "pie", "ecn-threshold": 0.2 }),
        json!({ "kind": "xcp", "unit": "bytes", "raise-beta": false, "admission": false, "capacity": "1.5 Mb/s" }),
        json!({ "kind": "errors", "capacity": "0 b/s", "q-max": "20 kB", "n": 6 }),
        json!({ "kind": "rcp-kappa", "kappa": "9 kB", "detector": "empty-for-n" }),
        json!({ "kind": "classes", "limit": "75 kB" }),
        json!({ "kind": "dualpi2", "coupling": 1.5, "ramp": "1 ms" }),
        json!({ "kind": "fq-codel", "flows": 64, "packets": 1000 }),
        json!({ "kind": "classes", "xcp": { "kind": "xcp-b", "unit": "bytes", "raise-beta": false, "admission": false } }),
    ];
    for text in texts {
        let spec = read(text).unwrap();
        assert_eq!(spec.validate(), Ok(()));
        assert_eq!(read(serde_json::to_value(&spec).unwrap()).unwrap(), spec);
        let queue = spec.build(Some(Rate::from_bps(200_000_000)), 1);
        assert_eq!(
            queue.judges_departures(),
            matches!(spec, QueueSpec::Codel(_)) || spec.reads_headers() || spec.sorts_by_label()
        );
        assert_eq!(
            queue.delays_departures(),
            matches!(spec, QueueSpec::Codel(_)) || spec.has_several_queues()
        );
    }
}

#[test]
fn unknown_keys_and_kinds_are_refused_by_name() {
    let error = read(json!({ "kind": "codel", "quantum": 3 })).unwrap_err();
    assert!(error.to_string().contains("quantum"), "{error}");
    assert!(read(json!({ "kind": "fq" })).is_err());
}

#[test]
fn wrong_values_are_refused_by_the_name_of_their_key() {
    let range = |kind, probability, max| json!({ "kind": kind, "min": "10 kB", "max": max, "probability": probability });
    let cases = [
        (json!({ "kind": "drop-tail", "limit": "0 B" }), "limit"),
        (json!({ "kind": "pie", "packets": 0 }), "packets"),
        (range("red", 0.1, "10 kB"), "max"),
        (range("ramp", 0.1, "9 kB"), "max"),
        (range("red", 0.0, "30 kB"), "probability"),
        (range("ramp", 1.1, "30 kB"), "probability"),
        (json!({ "kind": "red", "min": "10 kB", "max": "30 kB", "burst": 3 }), "burst"),
        (json!({ "kind": "red", "min": "10 kB", "max": "30 kB", "packet": "0 B" }), "packet"),
        (json!({ "kind": "red", "min": "1 kB", "max": "30 kB" }), "min"),
        (json!({ "kind": "codel", "target": "0 ms" }), "target"),
        (json!({ "kind": "codel", "interval": "0 ms" }), "interval"),
        (json!({ "kind": "pie", "target": "0 ms" }), "target"),
        (json!({ "kind": "pie", "update": "0 ms" }), "update"),
        (json!({ "kind": "pie", "ecn-threshold": 2.0 }), "ecn-threshold"),
        (json!({ "kind": "xcp", "capacity": "0 b/s" }), "capacity"),
        (json!({ "kind": "rcp", "capacity": "0 b/s" }), "capacity"),
        (json!({ "kind": "xcp-kappa", "kappa": "30 kB", "q-max": "20 kB" }), "kappa"),
        (json!({ "kind": "xcp-b", "q-max": "0 B" }), "q-max"),
        (json!({ "kind": "xcp-b", "chi": 0.9 }), "chi"),
        (json!({ "kind": "xcp-b", "n": 65 }), "n"),
        (json!({ "kind": "xcp", "alpha": 0.0 }), "alpha"),
        (json!({ "kind": "xcp", "raise-beta": true }), "raise-beta"),
        (json!({ "kind": "rcp", "interval-min": "0.9 us" }), "interval-min"),
        (json!({ "kind": "classes", "limit": "0 B" }), "limit"),
        (json!({ "kind": "classes", "xcp": { "kind": "rcp" } }), "xcp.kind"),
        (json!({ "kind": "classes", "rcp": { "kind": "drop-tail" } }), "rcp.kind"),
        (json!({ "kind": "classes", "other": { "kind": "xcp" } }), "other.kind"),
        (json!({ "kind": "classes", "other": { "kind": "classes" } }), "other.kind"),
        (json!({ "kind": "classes", "other": { "kind": "fq_codel" } }), "other.kind"),
        (json!({ "kind": "dualpi2", "coupling": 0.5 }), "coupling"),
        (json!({ "kind": "dualpi2", "classic-share": 1.0 }), "classic-share"),
        (json!({ "kind": "fq-codel", "flows": 0 }), "flows"),
        (json!({ "kind": "fq-codel", "quantum": "0 B" }), "quantum"),
        (json!({ "kind": "classes", "rcp": { "kind": "rcp", "alpha": 2.0 } }), "rcp.alpha"),
    ];
    for (text, key) in cases {
        let error = read(text).unwrap().validate().unwrap_err();
        assert_eq!(error.key, key);
        assert!(error.to_string().starts_with(&format!("`{key}` ")));
    }
}
