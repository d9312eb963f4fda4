//! The client's side of Digest.

use thiserror::Error;
use zeroize::Zeroizing;

use super::{Algorithm, Challenge, Counted, Credentials};
use crate::message::Method;

/// Answers the challenges of one server, or proxy, for one user.
pub struct Answerer {
    username: String,
    password: Zeroizing<String>,
    weakest: Algorithm,
    current: Option<Current>,
    /// Challenges since the last accepted proof.
    unproven: u32,
}

struct Current {
    challenge: Challenge,
    /// Requests sent with the nonce of this challenge.
    count: u32,
}

/// Reason not to answer a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChallengeFault {
    /// None of the challenges has an algorithm that is known and allowed here.
    #[error("no challenge with an algorithm that is known and allowed here")]
    NoneFits,
    /// The server has refused an answer to its own challenge: name or password are wrong.
    #[error("the server refuses the name or the password")]
    Refused,
}

impl Answerer {
    /// Creates an answerer for this user. `weakest` is the weakest algorithm to use: otherwise, an
    /// attacker on the path could ask for MD5.
    #[must_use]
    pub fn new(username: &str, password: &str, weakest: Algorithm) -> Self {
        Self {
            username: username.to_owned(),
            password: Zeroizing::new(password.to_owned()),
            weakest,
            current: None,
            unproven: 0,
        }
    }

    /// Handles the challenges of one response, and chooses the strongest.
    ///
    /// # Errors
    /// When no challenge fits, or the server refused the password, which is not retried then.
    pub fn handle_challenges(&mut self, challenges: &[Challenge]) -> Result<(), ChallengeFault> {
        let allowed = challenges
            .iter()
            .filter(|challenge| challenge.algorithm >= self.weakest);
        let best = allowed.rev().max_by_key(|challenge| challenge.algorithm);
        let best = best.ok_or(ChallengeFault::NoneFits)?;
        let was_answered = self.unproven > 0
            && self
                .current
                .as_ref()
                .is_some_and(|current| current.challenge.realm == best.realm);
        // A nonce may be too old, but not every time.
        let may_try = best.is_stale && self.unproven < MAX_UNPROVEN;
        self.current = Some(Current {
            challenge: best.clone(),
            count: 0,
        });
        if was_answered && !may_try {
            Err(ChallengeFault::Refused)
        } else {
            Ok(())
        }
    }

    /// Records that the server accepted the proof, so that a later challenge counts as new.
    pub fn handle_success(&mut self) {
        self.unproven = 0;
    }

    /// Returns the proof for a request; `None` before the first challenge. `cnonce` is a token that
    /// was not used before.
    pub fn credentials(&mut self, method: &Method, uri: &str, cnonce: &str) -> Option<Credentials> {
        let current = self.current.as_mut()?;
        current.count = current.count.checked_add(1)?;
        if current.count == 1 {
            self.unproven = self.unproven.saturating_add(1);
        }
        let challenge = &current.challenge;
        let algorithm = challenge.algorithm;
        let secret =
            super::Secret::new(algorithm, &self.username, &challenge.realm, &self.password);
        let counted = challenge.has_qop.then(|| Counted {
            count: current.count,
            cnonce: cnonce.to_owned(),
        });
        let mut credentials = Credentials {
            username: self.username.clone(),
            realm: challenge.realm.clone(),
            nonce: challenge.nonce.clone(),
            uri: uri.to_owned(),
            response: String::new(),
            algorithm,
            opaque: challenge.opaque.clone(),
            counted,
        };
        credentials.response = super::verify::response(&credentials, &secret, method);
        Some(credentials)
    }
}

/// Limit of consecutive challenges without an accepted proof.
const MAX_UNPROVEN: u32 = 3;

impl std::fmt::Debug for Answerer {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answerer")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}
