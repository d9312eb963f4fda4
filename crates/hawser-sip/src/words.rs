//! Unique tokens: branches, tags, Call-IDs.

use std::fmt::Write as _;

use ring::hmac;

/// Generates unpredictable and unique tokens.
#[derive(Debug)]
pub struct Words {
    key: hmac::Key,
    count: u64,
}

impl Words {
    /// Creates a generator from `key`, which is secret, random, and used for nothing before.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            count: 0,
        }
    }

    /// Returns the next token: 32 hexadecimal digits.
    pub fn next_word(&mut self) -> String {
        self.count += 1;
        let tag = hmac::sign(&self.key, &self.count.to_be_bytes());
        let mut word = String::with_capacity(32);
        for byte in &tag.as_ref()[..16] {
            let _ = write!(word, "{byte:02x}");
        }
        word
    }

    /// Returns a branch for a Via (RFC 3261 §8.1.1.7).
    pub fn next_branch(&mut self) -> String {
        format!("z9hG4bK{}", self.next_word())
    }
}
