//! Estimates by a trained model (rapid 2.19).

use std::sync::Arc;

use crate::{Bound, Decision, Gaps, Refusal, StreamEstimate};
use headway_learned::{Model, NoAnswer, Outside, stream};
use headway_units::{Bytes, Rate};

/// The line of help of both learned estimators.
pub(crate) const SUMMARY: &str =
    "a trained model (--model FILE): streams as it was trained on, or binary search";

/// Above this probability a rate counts as above the available bandwidth.
const LIKELY: f64 = 0.5;

/// A model and its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    model: Option<Arc<Model>>,
    scratch: headway_learned::Scratch,
    /// Why the last stream is unlike those that the model has seen.
    outside: Option<Outside>,
}

impl Learned {
    pub(crate) fn new(model: Arc<Model>) -> Learned {
        Learned { model: Some(model), ..Learned::default() }
    }

    pub(crate) fn model(&self) -> Option<&Model> {
        self.model.as_deref()
    }

    pub(crate) const fn outside(&self) -> Option<Outside> {
        self.outside
    }

    /// Estimates the available bandwidth; `packet` and `capacity` count the same bytes.
    pub(crate) fn estimate(
        &mut self,
        packet: Bytes,
        gaps: &Gaps,
        capacity: Option<Rate>,
    ) -> Result<StreamEstimate, Refusal> {
        let found = self.ask(|model, scratch| model.rate(of(gaps), (packet, capacity), scratch))?;
        Ok(StreamEstimate { rate: found.value, bound: Bound::Within, interval: found.interval })
    }

    /// Judges the rate of a stream.
    pub(crate) fn decide(
        &mut self,
        packet: Bytes,
        gaps: &Gaps,
        capacity: Option<Rate>,
    ) -> Result<Decision, Refusal> {
        let above = self.ask(|model, scratch| model.above(of(gaps), (packet, capacity), scratch))?;
        Ok(if above > LIKELY { Decision::Above } else { Decision::NotAbove })
    }

    fn ask<T>(
        &mut self,
        question: impl FnOnce(&Model, &mut headway_learned::Scratch) -> Result<T, NoAnswer>,
    ) -> Result<T, Refusal> {
        self.outside = None;
        let model = self.model.as_deref().ok_or(Refusal::NoModel)?;
        question(model, &mut self.scratch).map_err(|reason| {
            if let NoAnswer::Unseen(outside) = reason {
                self.outside = Some(outside);
            }
            Refusal::from(reason)
        })
    }
}

fn of(gaps: &Gaps) -> stream::Gaps<'_> {
    stream::Gaps { send: &gaps.send, receive: &gaps.receive }
}
