//! Who may look.
//!
//! On a loopback address everybody on this host may, unless there is a token. There the name in the `Host`
//! header must be one of this host, because a page of a stranger can give its own name this address (DNS
//! rebinding). Elsewhere a token is needed. At a Unix socket everybody may look who may connect, which the
//! mode of its file says; no browser can.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::places::Place;

/// What viewers must know: as `Authorization: Bearer TOKEN`, or once as `/?token=TOKEN`, which sets a cookie.
#[derive(Clone)]
pub struct Token {
    token: [u8; 32],
    cookie: [u8; 32],
}

impl Token {
    /// Takes a token; the caller sees to it that it is long enough not to be guessed.
    pub fn new(text: &str) -> Token {
        let cookie = hash(hex(&hash(text.as_bytes(), b"cookie")).as_bytes(), b"value");
        Token { token: hash(text.as_bytes(), b"value"), cookie }
    }

    /// What the cookie has: not the token, which may also open other doors.
    fn cookie(text: &str) -> String {
        hex(&hash(text.as_bytes(), b"cookie"))
    }

    /// Whether this is the token; takes as long for any other.
    fn is(&self, text: &str) -> bool {
        hash(text.as_bytes(), b"value").ct_eq(&self.token).into()
    }

    /// Whether this is the cookie.
    fn is_cookie(&self, text: &str) -> bool {
        hash(text.as_bytes(), b"value").ct_eq(&self.cookie).into()
    }

    /// Whether the headers of a request to this port have the token or the cookie.
    fn is_known(&self, port: u16, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        if bearer.is_some_and(|(scheme, text)| scheme.eq_ignore_ascii_case("bearer") && self.is(text.trim()))
        {
            return true;
        }
        let name = cookie_name(port);
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(key, value)| key == name && self.is_cookie(value))
    }
}

impl std::fmt::Debug for Token {
    /// Hides the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Cookies of all ports of a host are one set, so the name has the port.
fn cookie_name(port: u16) -> String {
    format!("headway-{port}")
}

fn hash(bytes: &[u8], purpose: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(b"headway page ").chain_update(purpose).chain_update(bytes).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decides who may look at a server.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Those who know the token.
    Token { port: u16, token: Token },
    /// Everybody on this host, by one of its names.
    ThisHost,
    /// Everybody who can connect.
    Connected,
}

impl Access {
    /// Returns nothing if the address is reachable for others and there is no token.
    pub(crate) fn new(address: SocketAddr, token: Option<Token>) -> Option<Access> {
        match token {
            Some(token) => Some(Access::Token { port: address.port(), token }),
            None => address.ip().to_canonical().is_loopback().then_some(Access::ThisHost),
        }
    }

    /// Why this request is not answered, if it is not.
    fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        match self {
            Access::Token { port, token } => (!token.is_known(*port, headers)).then(|| {
                let how = "This page needs its token: open /?token=TOKEN once, or send `Authorization: Bearer TOKEN`.\n";
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], how).into_response()
            }),
            Access::ThisHost => (!names_this_host(headers)).then(|| {
                let why = "This address is for this host only: use its name localhost, or an address such as 127.0.0.1.\n";
                (StatusCode::FORBIDDEN, why).into_response()
            }),
            Access::Connected => None,
        }
    }

    /// Answers `/?token=TOKEN` with a cookie, and sends the viewer to the page without the
    /// token in its address.
    fn welcome(&self, request: &Request) -> Option<Response> {
        let Access::Token { port, token } = self else { return None };
        let query = request.uri().query().filter(|_| request.uri().path() == "/")?;
        let value = query.split('&').find_map(|pair| pair.strip_prefix("token="))?;
        let text = percent_decode_str(value).decode_utf8().ok().filter(|text| token.is(text.trim()))?;
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict",
            cookie_name(*port),
            Token::cookie(text.trim())
        );
        Some(
            (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())])
                .into_response(),
        )
    }
}

/// Whether the host in the request is this one, whatever the port: it may have been forwarded.
fn names_this_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Some(authority) = host.to_str().ok().and_then(|text| text.parse::<Authority>().ok()) else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Lets a request pass that may be answered.
pub(crate) async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")], "Only GET is answered.\n")
            .into_response();
    }
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    if length || headers.contains_key(header::TRANSFER_ENCODING) {
        return (StatusCode::PAYLOAD_TOO_LARGE, "Requests have no body here.\n").into_response();
    }
    if let Some(response) = access.welcome(&request) {
        return response;
    }
    if let Some(response) = access.refusal(headers) {
        return response;
    }
    if request.extensions().get::<Place>().is_some_and(|place| !place.admit()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "There are as many connections as there may be.\n")
            .into_response();
    }
    next.run(request).await
}
