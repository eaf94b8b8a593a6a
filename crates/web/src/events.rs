//! Server-sent events: every snapshot, to every viewer that keeps up.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::assets::text;

/// Time after which an event stream says that it is alive, although nothing was published.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// When a browser comes again after the end of the stream.
const RETRY_MS: u64 = 1000;
/// Most event streams at once.
pub(crate) const VIEWERS: usize = 16;

/// What event streams show.
pub(crate) trait Source: Send + Sync + 'static {
    /// Returns the places of event streams.
    fn viewers(&self) -> &Arc<Semaphore>;

    /// Returns what says when there is something new.
    fn watch(&self) -> watch::Receiver<u64>;

    /// Returns the newest state with the decisions since `seen` as messages, and how far a
    /// viewer has seen then.
    fn messages(&self, seen: Option<Position>) -> (Position, String);
}

/// How far a viewer has seen: which run, and how many of its decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) run: u64,
    pub(crate) decided: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.run, self.decided)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Position, ()> {
        let (run, decided) = text.split_once('-').ok_or(())?;
        Ok(Position { run: run.parse().map_err(drop)?, decided: decided.parse().map_err(drop)? })
    }
}

impl Position {
    /// Returns the number of decisions that were seen, if they were of this run.
    pub(crate) fn decided_in(self, run: u64) -> Option<u64> {
        (self.run == run).then_some(self.decided)
    }
}

/// One viewer. While its connection has no room it is not asked, and then it gets the newest snapshot.
struct Viewer<S> {
    shown: Arc<S>,
    newest: watch::Receiver<u64>,
    /// What it has seen.
    seen: Option<Position>,
    /// Whether it has had its first message.
    greeted: bool,
    _place: OwnedSemaphorePermit,
}

/// Answers with an event stream, if there is room for one more viewer.
pub(crate) async fn stream<S: Source>(State(shown): State<Arc<S>>, headers: HeaderMap) -> Response {
    let Ok(place) = Arc::clone(shown.viewers()).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "There are as many viewers as there may be.\n")
            .into_response();
    };
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let viewer = Viewer { newest: shown.watch(), shown, seen, greeted: false, _place: place };
    let messages = unfold(viewer, |mut viewer| async move {
        let message = viewer.next().await;
        Some((Ok::<_, std::convert::Infallible>(message), viewer))
    });
    text("text/event-stream", Body::from_stream(messages))
}

impl<S: Source> Viewer<S> {
    /// Returns the next message.
    async fn next(&mut self) -> String {
        if !self.greeted {
            self.greeted = true;
            return format!("retry: {RETRY_MS}\n\n{}", self.message());
        }
        match tokio::time::timeout(HEARTBEAT, self.newest.changed()).await {
            Ok(Ok(())) => self.message(),
            // The sender lives as long as this viewer, so only the time is over.
            Ok(Err(_)) | Err(_) => ": alive\n\n".to_owned(),
        }
    }

    /// Returns the newest snapshot with the decisions that this viewer lacks.
    fn message(&mut self) -> String {
        self.newest.mark_unchanged();
        let (position, messages) = self.shown.messages(self.seen);
        self.seen = Some(position);
        messages
    }
}
