//! What is answered to which path.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::access::{self, Access};
use crate::assets::{ASSETS, text};
use crate::choice::Choice;
use crate::history::Span;
use crate::metrics::{self, Metrics};
use crate::shown::Shown;
use crate::{events, http};

const JSON: &str = "application/json";

/// The page of a router, its data and its metrics.
pub(crate) fn page(shown: Arc<Shown>, metrics: Metrics, access: Access) -> Router {
    let mut routes = Router::new()
        .route("/v1/state", get(state))
        .route("/v1/recent", get(recent))
        .route("/v1/history", get(history))
        .route("/v1/events", get(events::stream::<Shown>))
        .with_state(shown);
    for (path, kind, body) in ASSETS {
        routes = routes.route(path, get(move || async move { text(kind, body) }));
    }
    guarded(routes.merge(metrics_route(metrics)), access)
}

/// Metrics only.
pub(crate) fn metrics_only(metrics: Metrics, access: Access) -> Router {
    guarded(metrics_route(metrics), access)
}

/// A choice among paths.
pub(crate) fn choice(choice: Arc<Choice>, access: Access) -> Router {
    let routes = Router::new()
        .route("/v1/paths", get(paths))
        .route("/v1/events", get(events::stream::<Choice>))
        .with_state(choice);
    guarded(routes, access)
}

fn metrics_route(metrics: Metrics) -> Router {
    Router::new().route("/metrics", get(metrics::answer)).with_state(metrics)
}

fn guarded(routes: Router, access: Access) -> Router {
    routes.layer(from_fn_with_state(access, access::check)).layer(map_response(http::add_headers))
}

async fn state(State(shown): State<Arc<Shown>>) -> Response {
    text(JSON, shown.all())
}

async fn paths(State(choice): State<Arc<Choice>>) -> Response {
    text(JSON, choice.state().to_string())
}

async fn recent(State(shown): State<Arc<Shown>>) -> Response {
    text(JSON, shown.recent())
}

async fn history(State(shown): State<Arc<Shown>>, uri: Uri) -> Response {
    let Some(history) = shown.history() else {
        let why = "Nothing is kept: start `headway edge` with `--history`.\n";
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    let Some(span) = Span::parse(uri.query()) else {
        let how = "Ask for `/v1/history?span=day`, or for `month` or `year` in its place.\n";
        return (StatusCode::BAD_REQUEST, how).into_response();
    };
    let until_ms = shown.newest(|snapshot, _, _| snapshot.time_ms);
    match history.text(span, until_ms).await {
        Ok(json) => text(JSON, json),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}
