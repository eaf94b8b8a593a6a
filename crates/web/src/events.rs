//! Server-sent events: every snapshot, to every viewer that keeps up.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::assets::text;
use crate::shown::{Position, Shown};

/// Time after which an event stream says that it is alive, although nothing was published.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// When a browser comes again after the end of the stream.
const RETRY_MS: u64 = 1000;

/// One viewer. While its connection has no room it is not asked, and then it gets the newest snapshot.
struct Viewer {
    shown: Arc<Shown>,
    newest: watch::Receiver<u64>,
    /// What it has seen.
    seen: Option<Position>,
    /// Whether it has had its first message.
    greeted: bool,
    _place: OwnedSemaphorePermit,
}

/// Answers with an event stream, if there is room for one more viewer.
pub(crate) async fn stream(State(shown): State<Arc<Shown>>, headers: HeaderMap) -> Response {
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

impl Viewer {
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
        let (position, data) = match self.seen {
            Some(seen) => self.shown.since(seen),
            None => self.shown.all(),
        };
        self.seen = Some(position);
        format!("id: {position}\ndata: {data}\n\n")
    }
}
