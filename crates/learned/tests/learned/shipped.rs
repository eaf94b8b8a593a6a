//! The models that come with Headway.

use headway_learned::{Model, Task};

const P_STREAMS: &[u8] = include_bytes!("../../../../models/p-streams.json");
const SABES: &[u8] = include_bytes!("../../../../models/sabes-kde.json");

#[test]
fn shipped_models_are_read_small_and_know_their_domain_and_intervals() {
    for (text, task) in [(P_STREAMS, Task::MultiRate), (SABES, Task::SabesKde)] {
        assert!(text.len() < 1 << 20, "{}", text.len());
        let model = Model::parse(text).expect("a model file");
        assert_eq!(model.task(), task);
        let json: serde_json::Value = serde_json::from_slice(text).expect("JSON");
        assert!(json["domain"].is_object() && json["interval"].is_object());
        assert_eq!(json["training"]["data-sha256"].as_str().map(str::len), Some(64));
    }
}

#[test]
fn the_shipped_model_of_p_streams_takes_packets_of_any_size() {
    let model = Model::parse(P_STREAMS).expect("a model file");
    let shape = model.shape().expect("it reads streams");
    assert_eq!((shape.rates, shape.packets_per_rate), (4, 12));
    assert!(!model.has_fixed_packets());
}
