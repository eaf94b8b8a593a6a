//! A page, an event stream and metrics of a router, and the state of a choice among paths, over HTTP.
//!
//! [`Server`] shows what `headway edge` knows: its caller publishes a [`headway_edge::snapshot::Snapshot`]
//! now and then, and viewers see it within the same second. [`MetricsServer`] has `/metrics` only, for
//! commands without a page, and [`ChoiceServer`] what `headway select` knows, for programs. Each works in a
//! thread of its own, which has the only asynchronous runtime of the workspace; callers stay without one,
//! and wait for no viewer.
//!
//! Only GET is answered, bodies are refused, and nothing can be changed from outside. Who may
//! look is in [`Token`].
//!
//! | path | what it has |
//! |---|---|
//! | `/` | the page, whose parts are compiled in |
//! | `/v1/state` | the newest snapshot and the last decisions |
//! | `/v1/recent` | one point a second of the last hour |
//! | `/v1/history?span=day` | the last day, `month` or `year` in some 1450 points, with the last decisions, if there is a history |
//! | `/v1/events` | server-sent events: every snapshot, with the decisions since the one before |
//! | `/metrics` | OpenMetrics text |
//!
//! Of a choice:
//!
//! | path | what it has |
//! |---|---|
//! | `/v1/paths` | the newest state |
//! | `/v1/events` | server-sent events: `decision` for each, `state` after decisions and once an interval |
//!
//! # Decisions
//!
//! - **It is axum on a tokio of one thread,** the most widely known library: strangers may connect, and
//!   parsing HTTP is not for this project to write. The data path hands over a snapshot and waits for
//!   nothing.
//! - **The newest snapshot wins.** A viewer's stream is asked for a message only when its connection has
//!   room, so a viewer that does not read costs a place and nothing else. The position in a message says how
//!   many decisions the viewer has, so that one that reconnects misses none.
//! - **A connection answers one request,** so none is idle, and one timer for the head and one for its life
//!   bound them all.
//! - **The page has no build step.** Its parts are compiled in as they are. What comes from the network
//!   becomes text nodes only, and the Content-Security-Policy allows no code but the file.
//! - **Metrics are computed when asked for,** from the newest snapshot, and have no labels that a stranger
//!   can multiply.

mod access;
mod assets;
mod choice;
mod events;
mod history;
mod http;
mod metrics;
mod places;
mod routes;
mod server;
mod shown;
mod timely;

pub use access::Token;
pub use metrics::MetricWriter;
pub use server::{ChoiceDoors, ChoiceServer, Error, MetricsServer, Server};
