//! Proofs of the shared token that do not reveal it, and random numbers.

use crate::protocol::NONCE_LEN;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The side that proves knowledge of the token. Each side has its own label in the proof; otherwise a man in
/// the middle could send one side's proof back to it as the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prover {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Prover {
    /// Domain separation: distinguishes the two proofs from each other and from other uses of the same token.
    const fn label(self) -> &'static [u8] {
        match self {
            Prover::Client => b"headway token proof 2 client",
            Prover::Server => b"headway token proof 2 server",
        }
    }
}

/// The nonces of both sides, which make a proof valid for one session only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonces {
    /// The server's nonce.
    pub server: [u8; NONCE_LEN],
    /// The client's nonce.
    pub client: [u8; NONCE_LEN],
}

/// A secret shared by both ends. It is never sent, but an eavesdropper who sees a proof can try guesses
/// against it offline, so the token should be long and random.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// Creates a token from any bytes.
    pub fn new(secret: impl Into<Vec<u8>>) -> Token {
        Token(secret.into())
    }

    /// Returns the proof of knowing the token, for one session.
    pub(crate) fn proof(&self, prover: Prover, nonces: &Nonces) -> [u8; 32] {
        self.mac(prover, nonces).finalize().into_bytes().into()
    }

    /// Returns whether `proof` is right; compares in constant time.
    pub(crate) fn verify(&self, prover: Prover, nonces: &Nonces, proof: &[u8; 32]) -> bool {
        self.mac(prover, nonces).verify_slice(proof).is_ok()
    }

    /// Returns the tag of a datagram of [`crate::Sealed`].
    pub(crate) fn tag(&self, datagram: &[u8]) -> [u8; 32] {
        self.mac_of(datagram).finalize().into_bytes().into()
    }

    /// Returns whether it has this tag; compares in constant time.
    pub(crate) fn has_tagged(&self, datagram: &[u8], tag: &[u8; 32]) -> bool {
        self.mac_of(datagram).verify_slice(tag).is_ok()
    }

    fn mac_of(&self, datagram: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(b"headway sealed datagram 1");
        mac.update(datagram);
        mac
    }

    fn mac(&self, prover: Prover, nonces: &Nonces) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(prover.label());
        mac.update(&nonces.server);
        mac.update(&nonces.client);
        mac
    }
}

impl std::fmt::Debug for Token {
    /// Hides the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Returns random bytes from the kernel.
///
/// # Errors
/// When the kernel has none, which current kernels never report.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_and_nonces_verify() {
        let token = Token::new("correct horse");
        let nonces = Nonces { server: [1; 32], client: [2; 32] };
        let swapped = Nonces { server: [2; 32], client: [1; 32] };
        let proof = token.proof(Prover::Client, &nonces);
        assert!(token.verify(Prover::Client, &nonces, &proof));
        assert!(!token.verify(Prover::Server, &nonces, &proof), "sent back");
        assert!(!token.verify(Prover::Client, &swapped, &proof));
        assert!(!Token::new("wrong horse").verify(Prover::Client, &nonces, &proof));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
