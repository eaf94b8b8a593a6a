//! Proving the shared token without showing it, and random numbers.

use crate::protocol::NONCE_LEN;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Keeps proofs of this protocol apart from any other use of the same token.
const CONTEXT: &[u8] = b"headway token proof 1";

/// A secret that both ends know. It is never sent; a listener who sees a proof can still try words
/// against it, so it should be long and random.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// A token of any bytes.
    pub fn new(secret: impl Into<Vec<u8>>) -> Token {
        Token(secret.into())
    }

    /// What shows the knowledge of the token to the owner of `server`'s nonce, once.
    pub(crate) fn proof(&self, server: &[u8; NONCE_LEN], client: &[u8; NONCE_LEN]) -> [u8; 32] {
        self.mac(server, client).finalize().into_bytes().into()
    }

    /// Whether `proof` is right, compared in constant time.
    pub(crate) fn verify(
        &self,
        server: &[u8; NONCE_LEN],
        client: &[u8; NONCE_LEN],
        proof: &[u8; 32],
    ) -> bool {
        self.mac(server, client).verify_slice(proof).is_ok()
    }

    fn mac(&self, server: &[u8; NONCE_LEN], client: &[u8; NONCE_LEN]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(CONTEXT);
        mac.update(server);
        mac.update(client);
        mac
    }
}

impl std::fmt::Debug for Token {
    /// Does not show the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Random bytes from the kernel.
///
/// # Errors
/// When the kernel has none, which current ones never report.
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
        let proof = token.proof(&[1; 32], &[2; 32]);
        assert!(token.verify(&[1; 32], &[2; 32], &proof));
        assert!(!token.verify(&[2; 32], &[1; 32], &proof));
        assert!(!Token::new("wrong horse").verify(&[1; 32], &[2; 32], &proof));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
