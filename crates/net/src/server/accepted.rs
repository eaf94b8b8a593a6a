//! A connection whose client has proved nothing yet.

use std::net::{SocketAddr, TcpStream};

use super::network::Network;
use super::places::Place;

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Accepted {
    pub tcp: TcpStream,
    pub peer: SocketAddr,
    pub network: Network,
    /// Its place among the strangers.
    pub place: Place,
}
