//! How much what is available changes from one window to the next.

use headway_units::{Duration, Instant};

/// Windows that the mean is taken over.
const MEMORY: u32 = 16;

/// The mean square difference between the rates of neighbouring windows that do not overlap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// The end and the rate of the last window that counted.
    last: Option<(Instant, f64)>,
    square: f64,
    count: u32,
}

impl Change {
    /// Takes the rate of a window; one that overlaps the last that counted does not count.
    pub(super) fn add(&mut self, at: Instant, window: Duration, rate: f64) {
        let Some((end, last)) = self.last else {
            self.last = Some((at, rate));
            return;
        };
        let since = at - end;
        if Duration::ZERO <= since && since < window {
            return;
        }
        self.last = Some((at, rate));
        // The clock was set back.
        if since < Duration::ZERO {
            return;
        }
        self.count = (self.count + 1).min(MEMORY);
        self.square += ((rate - last).powi(2) - self.square) / f64::from(self.count);
    }

    /// Returns the root of the mean square difference; 0 before the second window.
    pub(super) fn typical(&self) -> f64 {
        self.square.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    #[test]
    fn the_change_is_that_between_windows_that_do_not_overlap() {
        let (mut change, window) = (Change::default(), Duration::from_ms(100));
        assert_eq!(change.typical(), 0.0);
        for (at, rate) in [(100, 60.0), (150, 500.0), (200, 63.0), (300, 59.0)] {
            change.add(ms(at), window, rate);
        }
        assert!((change.typical() - 12.5_f64.sqrt()).abs() < 1e-12);
        change.add(ms(10), window, 0.0);
        assert!((change.typical() - 12.5_f64.sqrt()).abs() < 1e-12, "the clock was set back");
    }

    #[test]
    fn old_changes_are_forgotten() {
        let mut change = Change::default();
        for k in 0..200 {
            let rate = if k < 50 && k % 2 == 0 { 100.0 } else { 0.0 };
            change.add(ms(k * 100), Duration::from_ms(100), rate);
        }
        assert!(change.typical() < 1.0, "{}", change.typical());
    }
}
