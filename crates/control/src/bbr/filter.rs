//! A windowed maximum in constant space.

/// Keeps the maximum and two later samples that replace it when it expires (Kathleen
/// Nichols' windowed filter).
///
/// The maximum is exact when samples fall within a window, and otherwise as recent as the quarters
/// of the window allow.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxFilter {
    /// First, second and third best sample: time and value. Times ascend, values descend.
    best: [(u64, u64); 3],
}

impl MaxFilter {
    /// The largest sample in the window of the last update; zero without any.
    pub(super) fn max(&self) -> u64 {
        self.best[0].1
    }

    /// Takes in a sample of `value` at `time`; samples older than `window` expire.
    pub(super) fn update(&mut self, window: u64, time: u64, value: u64) {
        let sample = (time, value);
        let [first, second, third] = &mut self.best;
        if value >= first.1 || time - third.0 > window {
            self.best = [sample; 3];
            return;
        }
        if value >= second.1 {
            (*second, *third) = (sample, sample);
        } else if value >= third.1 {
            *third = sample;
        }
        self.age(window, sample);
    }

    /// Drops expired samples, and picks later ones while there is only the first.
    fn age(&mut self, window: u64, sample: (u64, u64)) {
        let time = sample.0;
        let [first, second, third] = self.best;
        let age = time - first.0;
        if age > window {
            self.best = [second, third, sample];
            if time - second.0 > window {
                self.best = [third, sample, sample];
            }
        } else if second.0 == first.0 && age > window / 4 {
            self.best = [first, sample, sample];
        } else if third.0 == second.0 && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_counts_for_a_window_and_then_makes_way() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100);
        for time in 1..=10 {
            filter.update(10, time, 50 - time);
            assert_eq!(filter.max(), 100);
        }
        // The second choice was taken in the second quarter of the window.
        filter.update(10, 11, 10);
        assert_eq!(filter.max(), 47);
        filter.update(10, 12, 60);
        assert_eq!(filter.max(), 60);
    }

    #[test]
    fn after_a_long_silence_only_the_newest_sample_counts() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100);
        filter.update(10, 50, 1);
        assert_eq!(filter.max(), 1);
    }
}
