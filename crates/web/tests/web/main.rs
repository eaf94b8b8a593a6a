//! Servers of pages, asked over real sockets on loopback.

mod access;
mod events;
mod hostile;
mod routes;
mod support;
