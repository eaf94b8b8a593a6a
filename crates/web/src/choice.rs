//! What viewers of a choice among paths see: the newest state, and the last decisions.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::{Semaphore, watch};

use crate::events::{Position, Source, VIEWERS};
use crate::shown::push;

/// Decisions that are kept for viewers who come again: more than are made while a connection is restored.
const DECISIONS: usize = 64;

/// Everything that viewers see. Publishing and reading hold the lock only to copy.
pub(crate) struct Choice {
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
    viewers: Arc<Semaphore>,
    /// Tells this run from others.
    run: u64,
}

/// Texts are JSON in one line.
struct Kept {
    state: Arc<str>,
    decisions: VecDeque<Arc<str>>,
    /// How many decisions there were.
    decided: u64,
}

fn text(value: &impl Serialize) -> Arc<str> {
    // Neither keys that are no strings nor types that fail are there.
    serde_json::to_string(value).unwrap_or_default().into()
}

impl Choice {
    pub(crate) fn new(run: u64, state: &impl Serialize) -> Choice {
        let kept = Kept { state: text(state), decisions: VecDeque::new(), decided: 0 };
        Choice {
            kept: Mutex::new(kept),
            newest: watch::Sender::new(0),
            viewers: Arc::new(Semaphore::new(VIEWERS)),
            run,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // What is kept is whole after each line that changes it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a state for those who ask from now on.
    pub(crate) fn refresh(&self, state: &impl Serialize) {
        let text = text(state);
        self.kept().state = text;
    }

    /// Takes a state and the decisions since the last one, and tells viewers.
    pub(crate) fn publish(&self, state: &impl Serialize, decisions: &[impl Serialize]) {
        self.refresh(state);
        let texts = decisions.iter().map(text);
        let mut kept = self.kept();
        push(&mut kept.decisions, texts, DECISIONS);
        kept.decided += decisions.len() as u64;
        drop(kept);
        self.newest.send_modify(|number| *number += 1);
    }

    /// Returns the newest state.
    pub(crate) fn state(&self) -> Arc<str> {
        Arc::clone(&self.kept().state)
    }
}

impl Source for Choice {
    fn viewers(&self) -> &Arc<Semaphore> {
        &self.viewers
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// A new viewer gets the state only; the decisions before are no news.
    fn messages(&self, seen: Option<Position>) -> (Position, String) {
        let kept = self.kept();
        let position = Position { run: self.run, decided: kept.decided };
        let seen = seen.and_then(|seen| seen.decided_in(self.run)).unwrap_or(kept.decided);
        let missed = usize::try_from(kept.decided.saturating_sub(seen)).unwrap_or(usize::MAX);
        let known = kept.decisions.len().saturating_sub(missed);
        let mut messages = String::new();
        for decision in kept.decisions.iter().skip(known) {
            let _ = write!(messages, "event: decision\ndata: {decision}\n\n");
        }
        let _ = write!(messages, "id: {position}\nevent: state\ndata: {}\n\n", kept.state);
        (position, messages)
    }
}
