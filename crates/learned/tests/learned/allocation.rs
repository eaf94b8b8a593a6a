//! A model does not allocate once the memory that a caller lends has grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::{cases, read};
use headway_learned::stream::Gaps;
use headway_learned::{Model, Scratch, Task};
use headway_units::{Bytes, Duration, Rate};

/// The system allocator with a count of allocations by the current thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for this function.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as for this function.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let before = ALLOCATIONS.get();
        let answered = models.iter().filter(|model| ask(model, &mut scratch)).count();
        assert_eq!(answered, models.len());
        ALLOCATIONS.get() - before
    };
    assert!(round() > 0, "the first round allocates its memory");
    assert_eq!(round(), 0);
}
