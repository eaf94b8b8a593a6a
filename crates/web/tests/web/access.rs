//! Who may look.

use std::net::SocketAddr;

use headway_web::{Error, Server, Token};

use crate::support::{exchange, get, get_with, server, server_with};

const TOKEN: &str = "a token & with=signs %";

#[test]
fn an_address_that_others_reach_needs_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let address: SocketAddr = address.parse().expect("an address");
        assert!(matches!(Server::start(address, None, None), Err(Error::NeedsToken(_))), "{address}");
    }
    let all = SocketAddr::from(([0, 0, 0, 0], 0));
    let server = Server::start(all, Some(Token::new(TOKEN)), None).expect("with a token");
    let here = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    assert_eq!(get(here, "/").status, 401);
}

#[test]
fn without_the_token_nothing_is_answered() {
    let server = server_with(TOKEN);
    for path in [
        "/",
        "/page.js",
        "/v1/state",
        "/v1/recent",
        "/v1/history?span=day",
        "/v1/events",
        "/metrics",
        "/no",
        "/?token=wrong",
        "/?token=",
    ] {
        let answer = get(server.address(), path);
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path}");
        assert!(answer.header("content-security-policy").is_some(), "{path}");
    }
    for line in
        ["Authorization: Bearer wrong\r\n", "Authorization: Basic abc\r\n", "Cookie: a=b; headway-1=0\r\n"]
    {
        assert_eq!(get_with(server.address(), "/", line).status, 401, "{line}");
    }
}

#[test]
fn the_token_opens_by_header_and_by_a_cookie_that_is_not_the_token() {
    let server = server_with(TOKEN);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(get_with(server.address(), "/v1/state", &bearer).status, 200);
    let answer = get(server.address(), "/?token=a%20token%20%26%20with%3Dsigns%20%25");
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("token"));
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(get_with(server.address(), "/", &format!("Cookie: x=1; {pair}\r\n")).status, 200);
}

#[test]
fn names_of_strangers_are_refused_on_loopback() {
    let server = server();
    for host in [
        "localhost",
        "localhost:99",
        "LOCALHOST",
        "127.0.0.1",
        "127.0.0.1:8080",
        "[::1]:80",
        "[::ffff:127.0.0.1]",
    ] {
        assert_eq!(get_with(server.address(), "/", &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "192.0.2.1", "a@localhost", "", "127.0.0.1.evil.example"]
    {
        assert_eq!(get_with(server.address(), "/", &format!("Host: {host}\r\n")).status, 403, "{host}");
    }
    assert_eq!(get_with(server.address(), "/", "").status, 403, "none");
    assert_eq!(
        get_with(server.address(), "/", "Host: localhost\r\nHost: evil.example\r\n").status,
        403,
        "two"
    );
}

#[test]
fn only_get_without_a_body_is_answered() {
    let server = server();
    for (request, status) in [
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("DELETE /v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", "413"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "413"),
    ] {
        let answer = exchange(server.address(), request.as_bytes());
        assert_eq!(std::str::from_utf8(&answer[9..12]), Ok(status), "{request}");
    }
}
