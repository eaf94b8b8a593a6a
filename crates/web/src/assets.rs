//! The parts of the page, compiled in.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Path, type and text of each part.
pub(crate) const ASSETS: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("../assets/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../assets/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../assets/page.js")),
    ("/uplot.css", "text/css; charset=utf-8", include_str!("../assets/uplot.css")),
    ("/uplot.js", "text/javascript; charset=utf-8", include_str!("../assets/uplot.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Answers with a text of this type.
pub(crate) fn text(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
