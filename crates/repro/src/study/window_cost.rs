//! What a model costs: the time that reading windows takes with it and without it (wan E16).

use std::hint::black_box;
use std::sync::Arc;

use headway_dataset::windows::Watched;
use headway_estimate::sabes::{Form, Settings, Transfer, Windows};
use headway_learned::Model;
use headway_passive::{Options, Tracker};
use nix::time::{ClockId, clock_gettime};

use super::learned_windows::Numbers;
use crate::recording::Recording;
use crate::statistics::{quantile, sorted};

/// Compares times over what the tap of a run saw, `times` times in turn: of `headway passive`, which reads
/// packets and windows that do not overlap, and of its transfers alone in sliding windows.
pub(super) fn compare(
    numbers: &mut Numbers,
    name: &str,
    (watched, recording): &(Watched, Recording),
    model: &Model,
    times: usize,
) {
    let model = Some(Arc::new(model.clone()));
    let literal = Settings { form: Form::Literal, ..Options::default().settings };
    let packets = |settings: Settings, model: Option<&Arc<Model>>| {
        black_box(track(recording, settings, model));
    };
    let sliding = Settings { windows: Windows::Sliding, ..literal };
    let follow = |model: Option<&Arc<Model>>| follow(watched, &sliding, model);
    let segments = |model: Option<&Arc<Model>>| {
        black_box(follow(model));
    };
    let with = model.as_ref();
    let mut add = |what, overhead| numbers.insert((name.to_owned(), what), overhead);
    add("passive-overhead", overhead(times, || packets(literal, None), || packets(literal, with)));
    let default = Options::default().settings;
    add("guarded-overhead", overhead(times, || packets(default, None), || packets(literal, with)));
    add("sliding-overhead", overhead(times, || segments(None), || segments(with)));
    let transfers = follow(None);
    let count = |count: fn(&Transfer) -> u64| transfers.iter().map(count).sum::<u64>() as f64;
    let all = count(|transfer| transfer.windows().total());
    add("sliding-passed", 100.0 * count(|transfer| transfer.windows().used()) / all.max(1.0));
}

/// Reads packets as `headway passive` does.
fn track(recording: &Recording, settings: Settings, model: Option<&Arc<Model>>) -> u64 {
    let mut tracker = Tracker::new(&Options { settings, ..Options::default() });
    model.into_iter().for_each(|model| tracker.set_model(Arc::clone(model)));
    recording.replay(|packet, outgoing| tracker.packet(packet, outgoing));
    tracker.finish();
    tracker.counts().used
}

/// Reads segments in the windows of the settings; all flows know the capacity of the link.
fn follow(watched: &Watched, settings: &Settings, model: Option<&Arc<Model>>) -> Vec<Transfer> {
    let mut transfers = vec![Transfer::new(settings); watched.flows()];
    for transfer in &mut transfers {
        transfer.share_capacity(watched.capacity());
        model.into_iter().for_each(|model| transfer.set_model(Arc::clone(model)));
    }
    for (flow, segment) in watched.segments() {
        black_box(transfers[*flow].observe(segment));
    }
    transfers
}

/// Returns by how many percent the second takes longer than the first: the median of pairs,
/// one after the other.
fn overhead(times: usize, first: impl Fn(), second: impl Fn()) -> f64 {
    let ratio = |_| {
        let (before, after) = (time_of(&first), time_of(&second));
        100.0 * (after / before.max(1e-9) - 1.0)
    };
    quantile(&sorted((0..times).map(ratio).collect()), 0.5)
}

/// Returns the time of the processor that some work of this thread takes, in seconds; others do not count.
fn time_of(work: &impl Fn()) -> f64 {
    let begin = processor_time();
    work();
    processor_time() - begin
}

/// The clock is one that every Linux has.
fn processor_time() -> f64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 * 1e-9)
}
