//! Entry points for fuzzers and for replaying their corpora. Each takes any bytes and panics only
//! when an invariant of a parser is broken.

use crate::gateway::judge;
use hawser_keys::voucher::Voucher;

/// Checks that a parsed voucher, written and parsed again, is equal.
pub fn fuzz_voucher(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(voucher) = text.parse::<Voucher>() {
        assert_eq!(voucher.to_string().parse(), Ok(voucher));
    }
}

/// Checks that the owner of a connection does not depend on how many of its first bytes arrive at
/// once, and is known after 2048 bytes.
pub fn fuzz_first_words(data: &[u8]) {
    let whose = judge(data);
    assert!(whose.is_some() || data.len() < 2048);
    for end in [1, 2, 5, 16, data.len() / 2, data.len().saturating_sub(1)] {
        if let Some(said) = data.get(..end).filter(|said| !said.is_empty())
            && let Some(earlier) = judge(said)
        {
            assert_eq!(Some(earlier), whose, "after {end} bytes");
        }
    }
}

#[cfg(test)]
mod tests;
