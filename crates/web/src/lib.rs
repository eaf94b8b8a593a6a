//! A page, an event stream and metrics of a router, over HTTP.
//!
//! [`Server`] shows what `headway edge` knows: its caller publishes a [`headway_edge::Snapshot`] now and then, and viewers see it within
//! the same second. [`MetricsServer`] has `/metrics` only, for commands without a page. Both work in a thread of their own, which
//! has the only asynchronous runtime of the workspace; callers stay without one, and wait for no viewer.
//!
//! Only GET is answered, bodies are refused, and nothing can be changed from outside. Who may look is in [`Token`].
//!
//! | path | what it has |
//! |---|---|
//! | `/` | the page, whose parts are compiled in |
//! | `/v1/state` | the newest snapshot and the last decisions |
//! | `/v1/recent` | one point a second of the last hour |
//! | `/v1/history?span=day` | the last day, `month` or `year` in some 1450 points, with the last decisions, if there is a history |
//! | `/v1/events` | server-sent events: every snapshot, with the decisions since the one before |
//! | `/metrics` | OpenMetrics text |

mod access;
mod assets;
mod events;
mod history;
mod http;
mod metrics;
mod routes;
mod server;
mod shown;
mod timely;

pub use access::Token;
pub use metrics::MetricWriter;
pub use server::{Error, MetricsServer, Server};
