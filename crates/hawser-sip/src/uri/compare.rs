//! Equivalence of URIs (RFC 3261 §19.1.4).

use super::SipUri;
use super::escape::normalized;

impl SipUri {
    /// Whether both are equivalent. The rule of RFC 3261 §19.1.4 is symmetric but not transitive: a
    /// parameter in only one of them is ignored, unless it is `user`, `ttl`, `method`, `maddr` or
    /// `transport`.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.is_secure == other.is_secure
            && self.user.as_deref().map(normalized) == other.user.as_deref().map(normalized)
            && self.password.as_deref().map(normalized) == other.password.as_deref().map(normalized)
            && self.host.to_canonical() == other.host.to_canonical()
            && self.port == other.port
            && self.has_params_of(other)
            && other.has_params_of(self)
            && self.has_headers_of(other)
    }

    /// Whether no parameter of `other` contradicts this URI.
    fn has_params_of(&self, other: &Self) -> bool {
        other.params.iter().all(|(name, value)| {
            let must_be_there = ALWAYS_COMPARED
                .iter()
                .any(|compared| compared.eq_ignore_ascii_case(name));
            match self.param(name) {
                Some(own) => {
                    let others = normalized(value.as_deref().unwrap_or_default());
                    normalized(own).eq_ignore_ascii_case(&others)
                }
                None => !must_be_there,
            }
        })
    }

    fn has_headers_of(&self, other: &Self) -> bool {
        let sorted = |uri: &Self| {
            let mut headers: Vec<_> = uri
                .headers
                .iter()
                .map(|(name, value)| (normalized(name).to_ascii_lowercase(), normalized(value)))
                .collect();
            headers.sort();
            headers
        };
        sorted(self) == sorted(other)
    }
}

const ALWAYS_COMPARED: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];
