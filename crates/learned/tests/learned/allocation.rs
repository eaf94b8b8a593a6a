//! A model does not allocate once the memory that a caller lends has grown.

use crate::counting::allocations;
use crate::support::{cases, read};
use headway_learned::stream::Gaps;
use headway_learned::{Model, Scratch, Task};
use headway_units::{Bytes, Duration, Rate};

/// Asks a model for whatever it is for; returns whether it answered.
fn ask(model: &Model, scratch: &mut Scratch) -> bool {
    let mut send = [Duration::ZERO; 8];
    let ranges = if model.task() == Task::MultiRate { [15_000, 13_100, 11_400, 10_000] } else { [12_000; 4] };
    send.iter_mut().enumerate().for_each(|(k, gap)| *gap = Duration::from_ns(ranges[k / 2]));
    let gaps = Gaps { send: &send, receive: &send };
    let path = (Bytes::new(9_038), Some(Rate::from_mbps(10_000.0)));
    let rates = [1e6, 2e6, 4e6, 9e7];
    match model.task() {
        Task::MultiRate => model.rate(gaps, path, scratch).is_ok(),
        Task::SingleRate => model.above(gaps, path, scratch).is_ok(),
        Task::SabesNn => model.good(&rates, Rate::from_mbps(100.0), scratch).is_ok(),
        Task::SabesKde => model.density(&rates, None, scratch).is_ok(),
    }
}

#[test]
fn no_model_allocates_in_steady_state() {
    let models: Vec<Model> = cases().iter().map(|case| read(&case["model"])).collect();
    let mut scratch = Scratch::default();
    let mut round = || {
        let answered = models.iter().filter(|model| ask(model, &mut scratch)).count();
        assert_eq!(answered, models.len());
    };
    assert!(allocations(&mut round) > 0, "the first round allocates its memory");
    assert_eq!(allocations(&mut round), 0);
}
