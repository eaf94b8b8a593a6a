//! Limits of what a measurement may cost, below which no path gives an answer.

use headway_units::{Bytes, Duration};

use headway_program::exit::{Code, Failed};

/// The least that `--budget` and `--duration` of a command must be.
pub(crate) struct Least {
    pub(crate) budget: Bytes,
    pub(crate) duration: Duration,
}

impl Least {
    /// Refuses lower limits, before anything is sent.
    pub(crate) fn check(&self, budget: Option<Bytes>, duration: Option<Duration>) -> Result<(), Failed> {
        let Least { budget: least, duration: shortest } = self;
        let reason = match (budget, duration) {
            (Some(budget), _) if budget < *least => {
                anyhow::anyhow!("--budget {budget} is too small for any answer; give at least {least}")
            }
            (_, Some(time)) if time < *shortest => {
                anyhow::anyhow!("--duration {time} is too short for any answer; give at least {shortest}")
            }
            _ => return Ok(()),
        };
        Err(Failed::new(Code::Arguments, reason))
    }
}
