//! What programs see over HTTP.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use headway_select::DecisionState;
use headway_web::{ChoiceDoors, ChoiceServer};

use super::Options;
use super::socket::Socket;
use super::state::{State, Timed};

/// Where programs will connect to, or nothing.
pub(super) struct Doors {
    doors: Option<ChoiceDoors>,
    /// Removed at the end.
    socket: Option<Socket>,
}

impl Doors {
    /// Listens where programs are wanted.
    ///
    /// # Errors
    /// When address or socket cannot be had.
    pub(super) fn open(options: &Options) -> Result<Doors> {
        let socket =
            options.http_socket.as_deref().map(|path| Socket::open(path, "--http-socket")).transpose()?;
        let listener = socket.as_ref().map(|socket| socket.listener().try_clone()).transpose()?;
        let wanted = options.listen.is_some() || listener.is_some();
        let doors = wanted.then(|| ChoiceDoors::open(options.listen.clone(), listener));
        Ok(Doors { doors: doors.transpose().context("--listen")?, socket })
    }

    /// Returns the path of its socket, if it has one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.socket.as_ref().map(Socket::path)
    }
}

/// A server for programs, or none.
pub(super) struct Viewers {
    server: Option<ChoiceServer>,
    _socket: Option<Socket>,
}

impl Viewers {
    /// Answers with this state from now on.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(super) fn start(doors: Doors, state: &State) -> Result<Viewers> {
        let server = doors.doors.map(|doors| ChoiceServer::start(doors, state));
        Ok(Viewers { server: server.transpose()?, _socket: doors.socket })
    }

    /// Returns the address of the server, if it has one.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().and_then(ChoiceServer::address)
    }

    /// Takes a state for those who ask from now on.
    pub(super) fn refresh(&self, state: impl FnOnce() -> State) {
        if let Some(server) = &self.server {
            server.refresh(&state());
        }
    }

    /// Shows a state, and the decisions since the last one.
    pub(super) fn publish(&self, state: &State, decisions: &[Timed<DecisionState>]) {
        if let Some(server) = &self.server {
            server.publish(state, decisions);
        }
    }
}
