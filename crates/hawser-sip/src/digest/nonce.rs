//! Nonces that a server need not remember: the time, and a seal over it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hawser_types::Instant;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// Makes nonces and knows them again.
#[derive(Clone, Debug)]
pub(super) struct Nonces {
    key: hmac::Key,
    lifetime: Duration,
}

/// What a nonce is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// It was made here, and its time is over.
    Stale,
    /// It was not made here, or for somebody else.
    Foreign,
}

impl Nonces {
    pub(super) fn new(key: &[u8; 32], lifetime: Duration) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            lifetime,
        }
    }

    /// A nonce for who `context` says.
    pub(super) fn make(&self, now: Instant, context: &[u8]) -> String {
        let time = now.as_nanos().to_be_bytes();
        let mut bytes = time.to_vec();
        bytes.extend_from_slice(&self.seal(time, context));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn age(&self, now: Instant, nonce: &str, context: &[u8]) -> Age {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(nonce) else {
            return Age::Foreign;
        };
        let Some((time, seal)) = bytes.split_first_chunk::<8>() else {
            return Age::Foreign;
        };
        let expected = self.seal(*time, context);
        if !bool::from(expected.as_slice().ct_eq(seal)) {
            return Age::Foreign;
        }
        let made = Instant::from_nanos(u64::from_be_bytes(*time));
        match now.since(made) < self.lifetime && made <= now {
            true => Age::Fresh,
            false => Age::Stale,
        }
    }

    fn seal(&self, time: [u8; 8], context: &[u8]) -> [u8; 16] {
        let mut signing = hmac::Context::with_key(&self.key);
        signing.update(&time);
        signing.update(context);
        let tag = signing.sign();
        let mut seal = [0; 16];
        seal.copy_from_slice(&tag.as_ref()[..16]);
        seal
    }
}
