//! The parameters of FAST, as text.

use std::fmt;

use super::super::parts::{Parts, optional_parts};
use super::delay::Reading;

/// Segments in the queue in equilibrium: 200 for paths of about 1 Gb/s (Wei et al.), and in
/// rapid 2.23 for 10 Gb/s.
const ALPHA: u32 = 200;
/// The largest alpha: a full queue of 1.5 GB.
const MOST_ALPHA: u32 = 1_000_000;
/// The words that select a clock, with it; without one of them RTTs are precise.
const CLOCKS: [(&str, Reading); 3] =
    [("rtt=ms", Reading::Milliseconds), ("rtt=us", Reading::Microseconds), ("rtt=owd", Reading::OneWay)];

/// The parameters of FAST; text such as `rtt=ms,alpha=50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastParameters {
    /// How the flow reads the delay of its path.
    pub(super) reading: Reading,
    /// Segments in the queue in equilibrium.
    pub(super) alpha: u32,
}

impl Default for FastParameters {
    fn default() -> FastParameters {
        FastParameters { reading: Reading::Smoothed, alpha: ALPHA }
    }
}

impl Parts for FastParameters {
    const KEYS: &'static [(&'static str, &'static str)] = &[
        (
            "rtt",
            "`ms`, `us` or `owd`: milliseconds, microseconds, or one-way delays by the receiver's stamps",
        ),
        ("alpha", "a number of segments from 1 to 1000000"),
    ];

    fn set(&mut self, part: &str) -> Option<()> {
        if let Some((_, reading)) = CLOCKS.iter().find(|(word, _)| *word == part) {
            self.reading = *reading;
            return Some(());
        }
        let alpha = part.strip_prefix("alpha=")?.parse().ok();
        self.alpha = alpha.filter(|alpha| (1..=MOST_ALPHA).contains(alpha))?;
        Some(())
    }

    fn known() -> String {
        "`rtt` and `alpha`, with a value".to_owned()
    }
}

optional_parts!(FastParameters, "rtt=owd,alpha=50");

impl fmt::Display for FastParameters {
    /// Prints what differs from the default, so nothing for the default itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = CLOCKS.iter().find(|(_, reading)| *reading == self.reading);
        f.write_str(clock.map_or("", |(word, _)| word))?;
        if self.alpha != ALPHA {
            f.write_str(if clock.is_some() { "," } else { "" })?;
            write!(f, "alpha={}", self.alpha)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Kind;

    #[test]
    fn parameters_read_back_as_they_print() {
        for (text, printed) in [
            ("fast", "fast"),
            ("fast:alpha=200", "fast"),
            ("fast: alpha=50 , rtt=us", "fast:rtt=us,alpha=50"),
            ("fast:rtt=ms", "fast:rtt=ms"),
            ("fast:rtt=owd,alpha=1", "fast:rtt=owd,alpha=1"),
            ("fast:alpha=1000000", "fast:alpha=1000000"),
        ] {
            let kind: Kind = text.parse().expect(text);
            assert_eq!(kind.to_string(), printed);
            assert_eq!(printed.parse(), Ok(kind));
        }
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_it_takes() {
        let alpha = "`alpha` takes a number of segments from 1 to 1000000";
        for (text, reason) in [
            ("fast:alpha=0", alpha),
            ("fast:alpha=1000001", alpha),
            ("fast:rtt=us,alpha=-1", alpha),
            ("fast:alpha", alpha),
            ("fast:rtt=s", "`rtt` takes `ms`, `us` or `owd`"),
            ("fast:", "`` is none of its parameters: `rtt` and `alpha`, with a value"),
            ("fast:rtt=ms,beta=2", "`beta=2` is none of its parameters"),
        ] {
            let error = text.parse::<Kind>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}`: {reason}")), "{error}");
        }
    }
}
