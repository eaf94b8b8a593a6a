//! Users whose new connections follow the choice.

use std::collections::HashMap;

use headway_units::{Bytes, Duration, Instant};

use super::timeline::Timeline;
use super::window::Window;
use super::world::PathsWorld;

/// A user fetches this much,
const SIZE: Bytes = Bytes::new(1_000_000);
/// so often,
const EVERY: Duration = Duration::from_ms(60_000);
/// and gives up after so long.
const LONGEST: Duration = Duration::from_ms(60_000);

/// How long fetches take, however the path is chosen.
#[derive(Debug, Default)]
pub struct Fetches {
    known: HashMap<(usize, u64), Duration>,
}

impl Fetches {
    /// Returns how long every fetch takes of a user who has one a minute, over the path that is
    /// chosen then; ascending.
    pub fn of(&mut self, world: &PathsWorld, timeline: &Timeline) -> Vec<Duration> {
        let mut times = Vec::new();
        let mut at = Instant::ZERO + EVERY / 2;
        while at < world.end {
            let path = timeline.at(at);
            times.push(*self.known.entry((path, at.ns())).or_insert_with(|| fetch(world, path, at)));
            at += EVERY;
        }
        times.sort_unstable();
        times
    }
}

fn fetch(world: &PathsWorld, path: usize, at: Instant) -> Duration {
    if !world.is_up(path, at) {
        return LONGEST;
    }
    Window::new(world, &[path], at, 3).transfer(path, Some(SIZE), LONGEST).1
}
