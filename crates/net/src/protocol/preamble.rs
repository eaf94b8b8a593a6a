//! The first eight bytes each side sends on the control connection.
//!
//! ```text
//! 0      magic "HDWY"
//! 4      version, big-endian u16
//! 6      TLS, big-endian u16
//! ```
//! The client's TLS field is 0 for plain text and 1 for TLS. The server's is 0 for plain text; any other
//! value means that TLS follows, and is the number of padding bytes that the client has to send before its
//! first TLS record. The padding is at least as long as the certificates that the server will send, so that a
//! stranger cannot make the server send more bytes than it has received.

use super::VERSION;

/// Length of a preamble in bytes.
pub const PREAMBLE_LEN: usize = 8;

const MAGIC: [u8; 4] = *b"HDWY";

/// The first data that each side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Protocol version of this side.
    pub version: u16,
    /// The TLS field, see the module documentation.
    pub tls: u16,
}

/// The reason why a preamble was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// The other side does not speak this protocol.
    #[error("the other side is not Headway")]
    NotHeadway,
    /// The other side speaks another version.
    #[error("the other side speaks version {theirs}, this side version {VERSION}")]
    Version {
        /// The version of the other side.
        theirs: u16,
    },
}

impl Preamble {
    /// Returns the preamble of this version with the given TLS field.
    pub const fn new(tls: u16) -> Preamble {
        Preamble { version: VERSION, tls }
    }

    /// Returns the bytes to send.
    pub fn to_bytes(self) -> [u8; PREAMBLE_LEN] {
        let mut bytes = [0; PREAMBLE_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_be_bytes());
        bytes[6..].copy_from_slice(&self.tls.to_be_bytes());
        bytes
    }

    /// Parses the other side's preamble.
    ///
    /// # Errors
    /// [`PreambleError::NotHeadway`] without the magic, [`PreambleError::Version`] if the versions differ.
    pub fn parse(bytes: &[u8; PREAMBLE_LEN]) -> Result<Preamble, PreambleError> {
        let [m0, m1, m2, m3, v0, v1, t0, t1] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(PreambleError::NotHeadway);
        }
        let preamble = Preamble { version: u16::from_be_bytes([v0, v1]), tls: u16::from_be_bytes([t0, t1]) };
        if preamble.version != VERSION {
            return Err(PreambleError::Version { theirs: preamble.version });
        }
        Ok(preamble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_survives_the_wire() {
        let preamble = Preamble::new(4096);
        assert_eq!(Preamble::parse(&preamble.to_bytes()), Ok(preamble));
    }

    #[test]
    fn another_version_is_named() {
        let bytes = Preamble { version: 7, tls: 0 }.to_bytes();
        assert_eq!(Preamble::parse(&bytes), Err(PreambleError::Version { theirs: 7 }));
        assert_eq!(Preamble::parse(b"GET / HT"), Err(PreambleError::NotHeadway));
    }
}
