//! A page, an event stream and metrics of a router, and the state of a choice among paths, over HTTP.
//!
//! [`Server`] shows what `headway edge` knows: its caller publishes a [`headway_edge::Snapshot`] now and then, and viewers see it within
//! the same second. [`MetricsServer`] has `/metrics` only, for commands without a page, and [`ChoiceServer`] what `headway select`
//! knows, for programs. Each works in a thread of its own, which has the only asynchronous runtime of the workspace; callers stay
//! without one, and wait for no viewer.
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
//!
//! Of a choice:
//!
//! | path | what it has |
//! |---|---|
//! | `/v1/paths` | the newest state |
//! | `/v1/events` | server-sent events: `decision` for each, `state` after decisions and once an interval |

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
