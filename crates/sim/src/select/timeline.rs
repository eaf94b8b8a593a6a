//! What was chosen when, and what it cost; and how good that was.

use headway_record::SelectResult;
use headway_units::{Bytes, Duration, Instant, Rate};

use super::world::PathsWorld;

/// A path counts as good if what is free there is at least this part of the most.
const GOOD: f64 = 0.9;

/// What a contestant did.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// From when on which path was used; the first from time zero on.
    pub chosen: Vec<(Instant, usize)>,
    /// What was sent to measure: when, over which path.
    pub spent: Vec<(Instant, usize, Bytes)>,
    /// Packets of others that were lost because of that.
    pub others_lost: u64,
    /// Decisions for a better path, each with its odds and whether it was right.
    pub claims: Vec<(f64, bool)>,
    /// The odds that another path is better, once a minute for each, and whether it was.
    pub looks: Vec<(f64, bool)>,
    /// For how long it said that choosing is vain.
    pub vain: Duration,
    /// How many questions and measurements there were.
    pub asked: [u64; 2],
}

impl Timeline {
    /// Returns the path that is used at `at`.
    pub fn at(&self, at: Instant) -> usize {
        let next = self.chosen.partition_point(|(from, _)| *from <= at);
        self.chosen.get(next.saturating_sub(1)).map_or(0, |(_, path)| *path)
    }

    /// Notes that another path is used from now on.
    pub fn choose(&mut self, at: Instant, path: usize) {
        if self.chosen.last().is_none_or(|(_, last)| *last != path) {
            self.chosen.push((at, path));
        }
    }

    /// Judges it.
    pub fn score(&self, world: &PathsWorld) -> Score {
        let end = world.end;
        let mut times = world.changes();
        times.extend(self.chosen.iter().map(|(at, _)| *at));
        times.push(end);
        times.sort_unstable();
        times.dedup();
        let mut score = Score::default();
        let mut bits = 0.0;
        let mut bad_since: Option<Instant> = None;
        let mut reactions: Vec<f64> = Vec::new();
        let total = (end - Instant::ZERO).secs_f64();
        for pair in times.windows(2) {
            let (from, time) = (pair[0], (pair[1] - pair[0]).secs_f64());
            let free = |path: usize| world.free(path, from).bps_f64();
            let here = free(self.at(from));
            let best = (0..world.paths.len()).map(free).fold(0.0, f64::max);
            bits += here * time;
            score.of_best += if best > 0.0 { here / best * time } else { time };
            score.on_best += if here >= best { time } else { 0.0 };
            if here >= GOOD * best {
                score.on_good += time;
                reactions.extend(bad_since.take().map(|since| (from - since).secs_f64()));
            } else if bad_since.is_none() {
                bad_since = Some(from);
            }
        }
        score.on_good /= total;
        score.on_best /= total;
        score.of_best /= total;
        score.goodput = Rate::from_bps_f64(bits / total);
        score.changes = self.chosen.len().saturating_sub(1) as f64 / total * 3_600.0;
        reactions.sort_by(f64::total_cmp);
        let reaction = reactions.get(reactions.len() / 2).copied().unwrap_or(0.0);
        score.reaction = Duration::from_secs_f64(reaction);
        let spent: u64 = self.spent.iter().map(|(_, _, bytes)| bytes.get()).sum();
        score.bytes_per_path_hour =
            Bytes::new((spent as f64 / world.paths.len().max(1) as f64 / total * 3_600.0) as u64);
        score.most_in_an_hour =
            (0..world.paths.len()).map(|path| self.most_in_an_hour(path)).max().unwrap_or_default();
        score.others_lost_per_hour = self.others_lost as f64 / total * 3_600.0;
        score
    }

    /// Returns it as a result: of the `[[select]]` with an index, by a strategy of this name, for users whose
    /// fetches took these times, ascending.
    pub fn result(
        &self,
        world: &PathsWorld,
        (select, strategy): (usize, &str),
        times: &[Duration],
    ) -> SelectResult {
        let score = self.score(world);
        let part = |part: f64| {
            let index = (times.len() as f64 * part) as usize;
            times.get(index.min(times.len().saturating_sub(1))).map_or(0, |time| time.ns().unsigned_abs())
        };
        SelectResult {
            select: select as u64,
            strategy: strategy.to_owned(),
            on_good: score.on_good,
            on_best: score.on_best,
            of_best: score.of_best,
            free_bps: score.goodput.bps(),
            bulk_bps: None,
            fetch_p50_ns: part(0.5),
            fetch_p95_ns: part(0.95),
            bytes_per_path_hour: score.bytes_per_path_hour.get(),
            most_bytes_in_an_hour: score.most_in_an_hour.get(),
            changes_per_hour: score.changes,
            reaction_ns: score.reaction.ns().unsigned_abs(),
            others_lost_per_hour: score.others_lost_per_hour,
            questions: self.asked[0],
            measurements: self.asked[1],
            decisions: self.claims.len() as u64,
            right: self.claims.iter().filter(|(_, right)| *right).count() as u64,
        }
    }

    /// Returns the most that was sent over a path within any hour.
    fn most_in_an_hour(&self, path: usize) -> Bytes {
        let hour = Duration::from_ms(3_600_000);
        let of_path: Vec<(Instant, u64)> = self
            .spent
            .iter()
            .filter(|(_, one, _)| *one == path)
            .map(|(at, _, bytes)| (*at, bytes.get()))
            .collect();
        let (mut first, mut sum, mut most) = (0, 0, 0);
        for (at, bytes) in &of_path {
            sum += bytes;
            while *at - of_path[first].0 >= hour {
                sum -= of_path[first].1;
                first += 1;
            }
            most = most.max(sum);
        }
        Bytes::new(most)
    }
}

/// How good a choice was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Share of the time on the best path, or one with 90 % of what is free there.
    pub on_good: f64,
    /// Share of the time on the best path.
    pub on_best: f64,
    /// Mean of what was free on the path in use, of the most.
    pub of_best: f64,
    /// Mean of what was free on the path in use.
    pub goodput: Rate,
    /// Changes of the path in an hour.
    pub changes: f64,
    /// Median time on a path that is not good until a good one is used, or until it is good again.
    pub reaction: Duration,
    /// What was sent to measure, for each path and hour.
    pub bytes_per_path_hour: Bytes,
    /// The most that was sent over a path within any hour.
    pub most_in_an_hour: Bytes,
    /// Packets of others that were lost because of measuring.
    pub others_lost_per_hour: f64,
}
