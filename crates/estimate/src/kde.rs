//! Modes of a distribution by kernel density estimation with a Gaussian kernel.

/// The kernel is cut off at this many bandwidths, where it is below 4e-6 of its peak.
const CUT: f64 = 5.0;
/// Evaluated points per bandwidth; a maximum between two of them is at most 0.2 % higher than the nearer one.
const PER_BANDWIDTH: f64 = 8.0;
/// Samples closer together than this share of the bandwidth are evaluated as one.
const MERGE: f64 = 1.0 / 64.0;
/// Maximum number of steps from an evaluated point to the maximum next to it, and the step that ends them.
const STEPS: usize = 50;
const CLOSE: f64 = 1e-7;

/// A sample and how often it was observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) weight: f64,
}

/// A local maximum of the density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Its position.
    pub at: f64,
    /// The sum of all kernels there, each with a peak of 1: n samples at one place make a mode of height n.
    pub height: f64,
}

/// Returns all local maxima of the density of `samples`, in ascending order of position.
///
/// Sorts `samples` by value. Not a number and infinite values must have been removed.
pub(crate) fn modes(samples: &mut Vec<Sample>, bandwidth: f64) -> Vec<Mode> {
    samples.sort_by(|a, b| a.value.total_cmp(&b.value));
    merge(samples, bandwidth * MERGE);
    let mut modes = Vec::new();
    let apart = |pair: &Sample, next: &Sample| next.value - pair.value < 2.0 * CUT * bandwidth;
    for cluster in samples.chunk_by(apart) {
        cluster_modes(cluster, bandwidth, &mut modes);
    }
    modes
}

/// Replaces runs of samples within `width` by their mean.
fn merge(samples: &mut Vec<Sample>, width: f64) {
    let mut kept = 0;
    let mut end = f64::NEG_INFINITY;
    for index in 0..samples.len() {
        let Sample { value, weight } = samples[index];
        if value < end {
            let into = &mut samples[kept - 1];
            let sum = into.weight + weight;
            into.value += (value - into.value) * weight / sum;
            into.weight = sum;
        } else {
            samples[kept] = samples[index];
            kept += 1;
            end = value + width;
        }
    }
    samples.truncate(kept);
}

/// Adds the modes of samples that no other samples influence.
fn cluster_modes(cluster: &[Sample], bandwidth: f64, modes: &mut Vec<Mode>) {
    let (Some(first), Some(last)) = (cluster.first(), cluster.last()) else { return };
    let step = bandwidth / PER_BANDWIDTH;
    let points = ((last.value - first.value) / step).ceil() as usize + 2;
    let mut window = Window { cluster, bandwidth, from: 0 };
    // Beyond the outermost samples the density only falls, so one point before them starts the rise.
    let mut before = [0.0, window.density(first.value - step).0];
    let mut at = first.value - step;
    for point in 0..points {
        let next = first.value + point as f64 * step;
        let height = window.density(next).0;
        if before[1] > before[0] && before[1] >= height {
            climb(&window, at, modes);
        }
        before = [before[1], height];
        at = next;
    }
    if before[1] > before[0] {
        climb(&window, at, modes);
    }
}

/// Adds the maximum next to `at`, unless it is the previous one again.
fn climb(window: &Window<'_>, mut at: f64, modes: &mut Vec<Mode>) {
    let mut window = Window { from: 0, ..*window };
    let mut height = 0.0;
    for _ in 0..STEPS {
        let (density, mean) = window.density(at);
        height = density;
        let moved = mean - at;
        at = mean;
        if moved.abs() < CLOSE * window.bandwidth {
            break;
        }
    }
    let again = |last: &Mode| (last.at - at).abs() < window.bandwidth / PER_BANDWIDTH;
    if !modes.last().is_some_and(again) {
        modes.push(Mode { at, height });
    }
}

/// Evaluates a density at ascending positions.
struct Window<'a> {
    cluster: &'a [Sample],
    bandwidth: f64,
    /// The first sample that is not too far below the latest position.
    from: usize,
}

impl Window<'_> {
    /// Returns the density at `at`, and the mean of the samples weighted by their kernels there (mean shift).
    fn density(&mut self, at: f64) -> (f64, f64) {
        let reach = CUT * self.bandwidth;
        while self.from < self.cluster.len() && self.cluster[self.from].value < at - reach {
            self.from += 1;
        }
        let (mut sum, mut moment) = (0.0, 0.0);
        for sample in self.cluster[self.from..].iter().take_while(|sample| sample.value <= at + reach) {
            let distance = (sample.value - at) / self.bandwidth;
            let kernel = sample.weight * (-0.5 * distance * distance).exp();
            sum += kernel;
            moment += kernel * (sample.value - at);
        }
        (sum, if sum > 0.0 { at + moment / sum } else { at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(values: &[f64]) -> Vec<Sample> {
        values.iter().map(|value| Sample { value: *value, weight: 1.0 }).collect()
    }

    #[test]
    fn equal_samples_are_a_mode_as_high_as_they_are_many() {
        let modes = modes(&mut samples(&[300.0, 300.0, 250.0, 300.0]), 2.0);
        assert_eq!(modes.len(), 2);
        assert_eq!((modes[0].at, modes[0].height), (250.0, 1.0));
        assert!((modes[1].at - 300.0).abs() < 1e-9 && (modes[1].height - 3.0).abs() < 1e-9);
    }

    #[test]
    fn two_samples_within_two_bandwidths_are_one_mode_and_farther_apart_two() {
        let near = modes(&mut samples(&[100.0, 103.0]), 2.0);
        assert_eq!(near.len(), 1);
        assert!((near[0].at - 101.5).abs() < 1e-4, "{near:?}");
        assert_eq!(modes(&mut samples(&[100.0, 105.0]), 2.0).len(), 2);
    }

    #[test]
    fn no_samples_have_no_modes() {
        assert_eq!(modes(&mut Vec::new(), 2.0), []);
    }

    /// The highest point of the density over a fine grid, by the definition.
    fn by_definition(values: &[f64], bandwidth: f64) -> (f64, f64) {
        let density = |at: f64| -> f64 {
            values.iter().map(|value| (-0.5 * ((value - at) / bandwidth).powi(2)).exp()).sum()
        };
        let (low, high) =
            values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
        let points = ((high - low) / 0.01) as usize + 1;
        let grid = (0..=points).map(|point| low + point as f64 * 0.01).map(|at| (at, density(at)));
        grid.fold((low, 0.0), |best, point| if point.1 > best.1 { point } else { best })
    }

    proptest! {
        #[test]
        fn the_highest_mode_is_that_of_the_definition(values in prop::collection::vec(0.0..100.0f64, 1..60)) {
            let (_, height) = by_definition(&values, 2.0);
            let found = modes(&mut samples(&values), 2.0);
            let best = found.iter().map(|mode| mode.height).fold(0.0, f64::max);
            prop_assert!((best / height - 1.0).abs() < 1e-3, "{best} instead of {height}");
        }
    }
}
