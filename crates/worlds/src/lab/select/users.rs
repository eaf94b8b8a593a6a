//! Users whose new connections take the path that is chosen.

use headway_units::{Bytes, Duration, Instant, Rate};

use super::Stage;
use super::transfer::transfer;
use crate::error::Error;

/// Every minute begins with a bulk transfer of this length,
const BULK: Duration = Duration::from_ms(20_000);
/// and after it there is a fetch of this size every five seconds.
const FETCH: Bytes = Bytes::new(1_000_000);
const EVERY: Duration = Duration::from_ms(5_000);
const MINUTE: Duration = Duration::from_ms(60_000);
/// Nobody waits longer for a fetch.
const LONGEST: Duration = Duration::from_ms(60_000);

/// What users got.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Mean rate of bulk transfers.
    pub(super) bulk: Option<Rate>,
    /// How long each fetch took.
    pub(super) fetches: Vec<Duration>,
}

/// Serves users until the run ends.
pub(super) fn run(stage: &Stage<'_>) -> Result<Served, Error> {
    let mut served = Served::default();
    let (mut bulk, mut minute) = ((Bytes::ZERO, Duration::ZERO), Instant::ZERO);
    while stage.wait(minute) {
        let (bytes, took) = transfer(stage, stage.chosen(), None, BULK)?;
        bulk = (bulk.0 + bytes, bulk.1 + took);
        let mut at = minute + BULK + EVERY;
        while at < minute + MINUTE && stage.wait(at) {
            let (bytes, took) = transfer(stage, stage.chosen(), Some(FETCH), LONGEST)?;
            // One that the end of the run has cut off tells nothing.
            if bytes == FETCH || took >= LONGEST {
                served.fetches.push(took);
            }
            at = (at + EVERY).max(stage.now());
        }
        minute += MINUTE;
    }
    served.bulk = Rate::of(bulk.0, bulk.1);
    Ok(served)
}
