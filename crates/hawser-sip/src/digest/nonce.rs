//! Stateless nonces: time, number and a seal over both.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hawser_types::Instant;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// Creates and verifies nonces.
#[derive(Clone, Debug)]
pub(super) struct Nonces {
    key: hmac::Key,
    lifetime: Duration,
    next: u32,
}

/// Identity of a nonce; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NonceId {
    made: Instant,
    number: u32,
}

/// Validity of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fresh(NonceId),
    /// Created here, but expired.
    Stale,
    /// Not created here, or for another client.
    Foreign,
}

impl Nonces {
    pub(super) fn new(key: &[u8; 32], lifetime: Duration) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            lifetime,
            next: 0,
        }
    }

    /// Creates a nonce for the client that `context` identifies. No two nonces are equal.
    pub(super) fn make(&mut self, now: Instant, context: &[u8]) -> String {
        self.next = self.next.wrapping_add(1);
        let id = NonceId::new(now, self.next).to_bytes();
        let mut bytes = id.to_vec();
        bytes.extend_from_slice(&self.seal(id, context));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn age(&self, now: Instant, nonce: &str, context: &[u8]) -> Age {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(nonce) else {
            return Age::Foreign;
        };
        let Some((id, seal)) = bytes.split_first_chunk() else {
            return Age::Foreign;
        };
        let expected = self.seal(*id, context);
        if !bool::from(expected.as_slice().ct_eq(seal)) {
            return Age::Foreign;
        }
        let id = NonceId::from_bytes(*id);
        if now.since(id.made) < self.lifetime && id.made <= now {
            Age::Fresh(id)
        } else {
            Age::Stale
        }
    }

    fn seal(&self, id: [u8; ID_LENGTH], context: &[u8]) -> [u8; 16] {
        let mut signing = hmac::Context::with_key(&self.key);
        signing.update(&id);
        signing.update(context);
        let tag = signing.sign();
        let mut seal = [0; 16];
        seal.copy_from_slice(&tag.as_ref()[..16]);
        seal
    }
}

impl NonceId {
    pub(super) fn new(made: Instant, number: u32) -> Self {
        Self { made, number }
    }

    pub(super) fn made(self) -> Instant {
        self.made
    }

    fn to_bytes(self) -> [u8; ID_LENGTH] {
        let [a, b, c, d, e, f, g, h] = self.made.as_nanos().to_be_bytes();
        let [i, j, k, l] = self.number.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    fn from_bytes(bytes: [u8; ID_LENGTH]) -> Self {
        let [a, b, c, d, e, f, g, h, number @ ..] = bytes;
        let made = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self::new(Instant::from_nanos(made), u32::from_be_bytes(number))
    }
}

/// Bytes of a nonce's time and number.
const ID_LENGTH: usize = 12;
