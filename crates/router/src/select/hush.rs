//! Says again and again what comes and goes only after pauses that grow.

use std::time::{Duration as Span, Instant as Clock};

/// The first pause and the longest.
const PAUSES: [Span; 2] = [Span::from_secs(60), Span::from_secs(3_600)];

/// When something was said last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hush {
    /// Until when it is not said again, and the pause before that.
    until: Option<(Clock, Span)>,
}

impl Hush {
    /// Whether to say it now. The next pause is twice as long, and the first one again when it would
    /// have been said for long.
    pub(super) fn says(&mut self, now: Clock) -> bool {
        let pause = match self.until {
            Some((until, _)) if now < until => return false,
            Some((until, pause)) if now < until + pause => (2 * pause).min(PAUSES[1]),
            _ => PAUSES[0],
        };
        self.until = Some((now + pause, pause));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_every_ten_seconds_is_said_after_pauses_that_grow_and_anew_after_quiet_ones() {
        let begun = Clock::now();
        let mut hush = Hush::default();
        let mut said = |seconds: u64| hush.says(begun + Span::from_secs(seconds));
        let times: Vec<u64> = (0..1_200).map(|step| 10 * step).filter(|at| said(*at)).collect();
        assert_eq!(times, [0, 60, 180, 420, 900, 1_860, 3_780, 7_380, 10_980]);
        assert!(!said(14_000) && said(20_000) && !said(20_050) && said(20_060));
    }
}
