//! TLS for the control connection.

use crate::transport::{DeadlineStream, Transport};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{AcceptedAlert, Acceptor};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    StreamOwned,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Bytes that a server sends in its handshake besides its certificates, rounded up:
/// hello, signature, tickets.
const HANDSHAKE_REST: usize = 2048;

/// The largest PEM file read, in bytes: a system's bundle of trusted authorities has 250 kB, and
/// a device has no end.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The reason why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// A file could not be read as PEM.
    #[error("cannot read {what} from {path}: {reason}; check that the file exists and is in PEM format")]
    File {
        /// The expected content.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// Certificate and key do not match, or are of an unsupported kind.
    #[error("certificate or key cannot be used: {0}; check that they belong together")]
    Config(#[from] rustls::Error),
    /// The fingerprint is not 32 bytes in hexadecimal.
    #[error("`{0}` is not a SHA-256 fingerprint; give 64 hexadecimal digits, with or without colons")]
    Fingerprint(String),
}

/// Certificate and key of a server.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    padding: u16,
    fingerprint: [u8; 32],
}

impl TlsServer {
    /// Reads a certificate chain and its key from PEM files.
    ///
    /// # Errors
    /// Any [`TlsSetupError`] except [`TlsSetupError::Fingerprint`].
    pub fn from_files(certificates: &Path, key: &Path) -> Result<TlsServer, TlsSetupError> {
        let chain = read_certificates(certificates)?;
        let what = "a private key";
        let key_der = PrivateKeyDer::from_pem_slice(&read_secret(key, what)?)
            .map_err(|error| file_error(key, what, error.to_string()))?;
        let size = chain.iter().map(|certificate| certificate.len()).sum::<usize>() + HANDSHAKE_REST;
        let fingerprint = chain.first().map(|leaf| Sha256::digest(leaf).into()).unwrap_or_default();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key_der)?;
        let padding = u16::try_from(size).unwrap_or(u16::MAX);
        Ok(TlsServer { config: Arc::new(config), padding, fingerprint })
    }

    /// Returns the SHA-256 of the certificate in hexadecimal, for clients that pin it.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the number of bytes a client has to send before its first TLS record, see
    /// [`crate::protocol::preamble`].
    pub(crate) fn padding(&self) -> u16 {
        self.padding
    }

    /// Sets up the server's side of TLS on a connection. Calls `turn` before the expensive part, the
    /// signature, and drops its result after it; the rest of the handshake happens with the first read.
    ///
    /// # Errors
    /// Those of TCP and of `turn`, and [`io::ErrorKind::InvalidData`] if the client does not speak TLS.
    pub(crate) fn accept<T>(
        &self,
        mut stream: DeadlineStream,
        turn: impl FnOnce(&DeadlineStream) -> io::Result<T>,
    ) -> io::Result<Transport> {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            if acceptor.read_tls(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, mut alert)) => return Err(refuse(&error, &mut alert, &mut stream)),
            }
        };
        let turn = turn(&stream)?;
        let connection = accepted.into_connection(Arc::clone(&self.config));
        drop(turn);
        let connection = connection.map_err(|(error, mut alert)| refuse(&error, &mut alert, &mut stream))?;
        Ok(Transport::Server(Box::new(StreamOwned::new(connection, stream))))
    }
}

impl fmt::Debug for TlsServer {
    /// Hides the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsServer({})", self.fingerprint())
    }
}

/// The certificates a client trusts.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// Trusts servers whose certificate is valid for the host name and signed by one of the
    /// authorities in a PEM file.
    ///
    /// # Errors
    /// Any [`TlsSetupError`] except [`TlsSetupError::Fingerprint`].
    pub fn with_authorities(path: &Path) -> Result<TlsClient, TlsSetupError> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(path)? {
            roots.add(certificate)?;
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsClient { config: Arc::new(config) })
    }

    /// Trusts only the server whose certificate has this SHA-256, whatever host name it is for.
    ///
    /// # Errors
    /// [`TlsSetupError::Fingerprint`] unless the text has 64 hexadecimal digits, not counting colons.
    pub fn with_fingerprint(text: &str) -> Result<TlsClient, TlsSetupError> {
        let wanted = parse_fingerprint(text).ok_or_else(|| TlsSetupError::Fingerprint(text.to_owned()))?;
        let provider = provider();
        let pinned = Arc::new(Pinned { wanted, provider: Arc::clone(&provider) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(pinned)
            .with_no_client_auth();
        Ok(TlsClient { config: Arc::new(config) })
    }

    /// Sets up the client's side of TLS on a connection and completes the handshake.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the server is not trusted or does not speak TLS;
    /// otherwise those of TCP.
    pub(crate) fn connect(&self, host: &str, mut stream: DeadlineStream) -> io::Result<Transport> {
        let invalid =
            |error: &dyn fmt::Display| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let name = ServerName::try_from(host.to_owned()).map_err(|error| invalid(&error))?;
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| invalid(&error))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Transport::Client(Box::new(StreamOwned::new(connection, stream))))
    }
}

/// Sends a TLS alert to the client and returns the error for this side.
fn refuse(error: &rustls::Error, alert: &mut AcceptedAlert, stream: &mut DeadlineStream) -> io::Error {
    let _ = alert.write_all(stream);
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let what = "certificates";
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read_file(path, what)?)
        .collect::<Result<_, _>>()
        .map_err(|error| file_error(path, what, error.to_string()))?;
    if certificates.is_empty() {
        return Err(file_error(path, what, "there are none".to_owned()));
    }
    Ok(certificates)
}

/// Reads a file of at most [`LARGEST_FILE`] bytes that others cannot read.
fn read_secret(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsSetupError> {
    headway_input::secret(path, LARGEST_FILE).map_err(|error| file_error(path, what, error.to_string()))
}

/// Reads a file of at most [`LARGEST_FILE`] bytes.
fn read_file(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsSetupError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| file_error(path, what, error.to_string()))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(file_error(path, what, format!("it is larger than {LARGEST_FILE} bytes")));
    }
    Ok(bytes)
}

fn file_error(path: &Path, what: &'static str, reason: String) -> TlsSetupError {
    TlsSetupError::File { what, path: path.to_owned(), reason }
}

/// Parses 64 hexadecimal digits, with or without colons, into 32 bytes.
fn parse_fingerprint(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| *c != ':')
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    (digits.len() == 64).then_some(bytes)?.try_into().ok()
}

/// Accepts one certificate, whoever signed it.
#[derive(Debug)]
struct Pinned {
    wanted: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let actual: [u8; 32] = Sha256::digest(end_entity).into();
        if bool::from(actual.ct_eq(&self.wanted)) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("the certificate has another fingerprint".to_owned()))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_64_digits() {
        let text = "0123456789abcdef".repeat(4);
        let bytes = parse_fingerprint(&text).unwrap();
        assert_eq!(bytes[..3], [0x01, 0x23, 0x45]);
        let colons: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(parse_fingerprint(&colons.join(":")), Some(bytes));
        assert_eq!(parse_fingerprint(&text[1..]), None);
        assert_eq!(parse_fingerprint("xyz"), None);
    }
}
