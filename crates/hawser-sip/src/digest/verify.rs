//! The server's side of Digest.

use std::time::Duration;

use hawser_types::Instant;
use subtle::ConstantTimeEq as _;
use thiserror::Error;

use super::counts::{CountLimits, Counts};
use super::nonce::{Age, Nonces};
use super::{Algorithm, Challenge, Counted, Credentials, Secret};
use crate::message::Method;
use crate::uri::Uri;

/// Challenges clients and verifies their proofs.
///
/// Each proof is accepted once. The verifier stores only the counts of correct proofs, so clients
/// without a password leave no state.
#[derive(Clone, Debug)]
pub struct Verifier {
    realm: String,
    nonces: Nonces,
    counts: Counts,
    algorithms: Vec<Algorithm>,
}

/// Reason to reject a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AuthFault {
    /// The proof is for another realm.
    #[error("the realm is another one")]
    Realm,
    /// The algorithm was not offered, or is not that of the secret.
    #[error("the algorithm is not accepted")]
    Algorithm,
    /// The nonce was not created here, or for another sender.
    #[error("the nonce was not made here")]
    Nonce,
    /// The proof is correct, but the nonce is too old or the count was used before: the client may
    /// try again at once with a new nonce.
    #[error("the nonce is too old, or the count was there before")]
    Stale,
    /// The proof is for another URI.
    #[error("the proof is for another URI")]
    Uri,
    /// The proof lacks the count of requests.
    #[error("qop=auth is missing")]
    NotCounted,
    /// The proof is wrong.
    #[error("the proof is wrong")]
    Wrong,
}

impl Verifier {
    /// Creates a verifier for this realm. `key` is secret and random; a stored key keeps nonces
    /// valid across a restart. `algorithms` are offered in this order, the best first (RFC 8760
    /// §2.3). Many clients read only the first, so it must be MD5 if they are to register.
    #[must_use]
    pub fn new(realm: &str, key: &[u8; 32], lifetime: Duration, algorithms: &[Algorithm]) -> Self {
        Self {
            realm: realm.to_owned(),
            nonces: Nonces::new(key, lifetime),
            counts: Counts::new(lifetime, COUNT_LIMITS),
            algorithms: algorithms.to_vec(),
        }
    }

    /// Returns the realm.
    #[must_use]
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Returns one challenge for each algorithm. `context` binds the nonce to the sender, for
    /// example its address.
    #[must_use]
    pub fn challenges(&mut self, now: Instant, context: &[u8], is_stale: bool) -> Vec<Challenge> {
        let algorithms = self.algorithms.iter();
        algorithms
            .map(|algorithm| Challenge {
                realm: self.realm.clone(),
                nonce: self.nonces.make(now, context),
                opaque: None,
                algorithm: *algorithm,
                has_qop: true,
                is_stale,
            })
            .collect()
    }

    /// Verifies a proof with the secret of the named user, and takes its count if it is correct.
    /// For an unknown user, pass the secret of an unused password: the answer takes as long then.
    ///
    /// # Errors
    /// See [`AuthFault`].
    pub fn verify(
        &mut self,
        now: Instant,
        context: &[u8],
        credentials: &Credentials,
        secret: &Secret,
        request: (&Method, &Uri),
    ) -> Result<(), AuthFault> {
        let (method, uri) = request;
        if credentials.realm != self.realm {
            return Err(AuthFault::Realm);
        }
        let is_accepted = self.algorithms.contains(&credentials.algorithm);
        if !is_accepted || credentials.algorithm != secret.algorithm {
            return Err(AuthFault::Algorithm);
        }
        let counted = credentials.counted.as_ref();
        let count = counted.ok_or(AuthFault::NotCounted)?.count;
        let named: Result<Uri, _> = credentials.uri.parse();
        if !named.is_ok_and(|named| named.is_equivalent(uri)) {
            return Err(AuthFault::Uri);
        }
        let expected = response(credentials, secret, method);
        let given = credentials.response.to_ascii_lowercase();
        let is_right = bool::from(expected.as_bytes().ct_eq(given.as_bytes()));
        match self.nonces.age(now, &credentials.nonce, context) {
            Age::Foreign => Err(AuthFault::Nonce),
            // Only a client that knows the password learns that just the nonce is too old.
            _ if !is_right => Err(AuthFault::Wrong),
            Age::Stale => Err(AuthFault::Stale),
            Age::Fresh(nonce) => {
                if self.counts.take(now, &credentials.username, nonce, count) {
                    Ok(())
                } else {
                    Err(AuthFault::Stale)
                }
            }
        }
    }
}

/// Returns the expected proof for a request (RFC 7616 §3.4.1, RFC 2069 without a count).
pub(super) fn response(credentials: &Credentials, secret: &Secret, method: &Method) -> String {
    let algorithm = credentials.algorithm;
    let request = algorithm.hash(&[method.as_str(), &credentials.uri]);
    match &credentials.counted {
        Some(Counted { count, cnonce }) => {
            let count = format!("{count:08x}");
            let nonce = &credentials.nonce;
            algorithm.hash(&[&secret.hash, nonce, &count, cnonce, "auth", &request])
        }
        None => algorithm.hash(&[&secret.hash, &credentials.nonce, &request]),
    }
}

/// A user has one nonce per host, and more with a program that asks for a new one each time. All
/// nonces together take about 20 MB.
const COUNT_LIMITS: CountLimits = CountLimits {
    each: 32,
    all: 100_000,
};
