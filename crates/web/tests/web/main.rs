//! Servers of pages, asked over real sockets on loopback.

mod access;
mod choice;
mod dashboard;
mod events;
mod history;
mod hostile;
mod routes;
mod support;
