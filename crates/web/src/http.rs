//! Connections: how many, how long, and what every answer says to browsers.

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Request, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::places::{Place, Places};
use crate::timely::Timely;

/// Time for the head of a request. A browser sends it in one packet; who sends it byte by
/// byte only holds a place.
const HEAD: Duration = Duration::from_secs(5);
/// Largest head of a request: the least that the library allows, and eight times what browsers send.
const HEAD_BYTES: usize = 8192;
/// Most headers of a request; browsers send twenty.
const HEADERS: usize = 64;
/// A connection of which nothing was acknowledged or taken for so long ends: its viewer is away. Twice the
/// time between two messages of an event stream.
const STALLED: Duration = Duration::from_secs(20);
/// Time to take an answer, or a message of an event stream: an hour of points over a link with 100 kb/s.
const SLOW: Duration = Duration::from_secs(30);
/// Bytes of a connection that the kernel keeps for its viewer (it takes twice as many): so a viewer that
/// takes nothing shows, and 64 of them cost little. Enough for 20 Mb/s over 50 ms.
const SENT_AHEAD: usize = 128 << 10;
/// The longest that a connection lives. An event stream that ends so begins again where it ended, by itself.
const LIFE: Duration = Duration::from_secs(600);
/// Pause after a connection could not be taken, for example because the process has no descriptors left.
const RETRY: Duration = Duration::from_millis(200);

/// Headers of every answer. Nothing comes from elsewhere, nothing is shown elsewhere, and nothing is guessed.
const HEADERS_OF_ANSWERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds them.
pub(crate) async fn add_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS_OF_ANSWERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// From where connections come.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Answers connections for ever.
pub(crate) async fn serve(listener: Listener, routes: Router) -> Infallible {
    let places = Places::default();
    loop {
        let routes = routes.clone();
        let taken = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, from)| {
                let begin = |place| tokio::spawn(hold(place, stream, routes)).abort_handle();
                places.take(Some(from.ip()), begin);
            }),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                places.take(None, |place| tokio::spawn(hold(place, stream, routes)).abort_handle());
            }),
        };
        if taken.is_err() {
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Answers a connection while it has its place.
async fn hold(
    place: Place,
    stream: impl AsFd + AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Router,
) {
    // Whatever ends it, the viewer comes again.
    let _ = tokio::time::timeout(LIFE, answer(&place, stream, routes)).await;
}

/// Answers one request; further ones need a connection of their own, so that none is idle.
async fn answer(
    place: &Place,
    stream: impl AsFd + AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Router,
) -> hyper::Result<()> {
    let socket = SockRef::from(&stream);
    // Without these the connection works, too; the first two are of TCP only.
    let _ = socket.set_tcp_user_timeout(Some(STALLED));
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_send_buffer_size(SENT_AHEAD);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.max_buf_size(HEAD_BYTES).max_headers(HEADERS).keep_alive(false);
    let stream = TokioIo::new(Timely::new(stream, SLOW));
    let routes = TowerToHyperService::new(routes);
    // Who decides whether it is answered needs the place.
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(place.clone());
        routes.call(request)
    });
    builder.serve_connection(stream, service).await
}
