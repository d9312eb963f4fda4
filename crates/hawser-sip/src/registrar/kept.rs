//! Bindings in the form in which they are stored across a restart.

use std::time::Duration;

use hawser_types::Instant;

use super::{Binding, Origin};
use crate::fields::{CallId, Field as _, NameAddr, Q};

/// A binding as text and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBinding {
    /// The contact without `q` and `expires`.
    pub contact: String,
    /// Its preference, in thousandths.
    pub q: u16,
    /// When it expires, in milliseconds since 1970.
    pub expires_unix_ms: u64,
    /// When it was set last, likewise.
    pub updated_unix_ms: u64,
    /// Call-ID of the request that set it.
    pub call_id: String,
    /// CSeq of that request.
    pub cseq: u32,
    /// Path to the contact, as in a Path header field; may be empty.
    pub path: String,
    /// Instance and link number of the host (RFC 5626).
    pub outbound: Option<(String, u32)>,
    /// Source address of the request; `None` if an earlier version stored the binding.
    pub source: Option<String>,
}

/// The same moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the process's clock.
    pub now: Instant,
    /// In milliseconds since 1970.
    pub unix_ms: u64,
}

impl Moment {
    fn to_unix_ms(self, at: Instant) -> u64 {
        let ahead = milliseconds(at.since(self.now));
        let behind = milliseconds(self.now.since(at));
        self.unix_ms.saturating_add(ahead).saturating_sub(behind)
    }

    /// Returns the time left; `None` for an expired time.
    fn ahead(self, unix_ms: u64) -> Option<Duration> {
        let left = unix_ms.checked_sub(self.unix_ms)?;
        (left > 0).then(|| Duration::from_millis(left))
    }
}

impl Binding {
    /// Returns the binding for storage, without its stream, which does not outlive a restart.
    #[must_use]
    pub fn to_kept(&self, moment: Moment) -> KeptBinding {
        let path: Vec<_> = self.path.iter().map(ToString::to_string).collect();
        KeptBinding {
            contact: self.contact.to_string(),
            q: self.q.thousandths(),
            expires_unix_ms: moment.to_unix_ms(self.expires),
            updated_unix_ms: moment.to_unix_ms(self.updated),
            call_id: self.call_id.as_str().to_owned(),
            cseq: self.cseq,
            path: path.join(", "),
            outbound: self.outbound.clone(),
            source: self.origin.address.map(|it| it.to_string()),
        }
    }
}

impl KeptBinding {
    /// Returns the binding; `None` if it has expired or can't be parsed. It is valid for at most
    /// `longest`, whatever the stored times say.
    #[must_use]
    pub fn to_binding(&self, moment: Moment, longest: Duration) -> Option<Binding> {
        let left = moment.ahead(self.expires_unix_ms)?.min(longest);
        let age = Duration::from_millis(moment.unix_ms.saturating_sub(self.updated_unix_ms));
        let mut path = Vec::new();
        if !self.path.is_empty() {
            NameAddr::parse_list(&self.path, &mut path).ok()?;
        }
        Some(Binding {
            contact: NameAddr::parse(&self.contact).ok()?,
            q: Q::from_thousandths(self.q).ok()?,
            expires: moment.now + left,
            updated: Instant::ZERO + moment.now.since(Instant::ZERO).saturating_sub(age),
            call_id: CallId::new(&self.call_id).ok()?,
            cseq: self.cseq,
            path,
            outbound: self.outbound.clone(),
            origin: Origin {
                address: self.source.as_deref().and_then(|it| it.parse().ok()),
                stream: None,
            },
        })
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Moment = Moment {
        now: Instant::from_nanos(500_000_000_000),
        unix_ms: 1_800_000_000_000,
    };
    const HOUR: Duration = Duration::from_secs(3600);

    fn binding() -> Binding {
        let mut path = Vec::new();
        NameAddr::parse_list("<sip:p1.example;lr>, <sip:p2.example;lr>", &mut path).unwrap();
        Binding {
            contact: NameAddr::parse("\"A, \\\"b\\\"\" <sip:a@192.0.2.1>;x=1").unwrap(),
            q: Q::from_thousandths(250).unwrap(),
            expires: BEFORE.now + Duration::from_secs(60),
            updated: Instant::from_nanos(440_000_000_000),
            call_id: CallId::new("1@host").unwrap(),
            cseq: 7,
            path,
            outbound: Some(("<urn:uuid:1>".to_owned(), 2)),
            origin: Origin {
                address: Some([192, 0, 2, 9].into()),
                stream: None,
            },
        }
    }

    #[test]
    fn a_binding_is_the_same_by_the_clock_of_the_next_process() {
        let after = Moment {
            now: Instant::from_nanos(100_000_000_000),
            unix_ms: BEFORE.unix_ms + 20_000,
        };
        let kept = binding().to_kept(BEFORE);
        let again = kept.to_binding(after, HOUR).unwrap();
        let expected = Binding {
            expires: after.now + Duration::from_secs(40),
            updated: Instant::from_nanos(20_000_000_000),
            ..binding()
        };
        assert_eq!(again, expected);
    }

    #[test]
    fn expired_and_damaged_bindings_are_left_out_and_a_wrong_clock_is_not_believed() {
        let kept = binding().to_kept(BEFORE);
        let at = |unix_ms| Moment { unix_ms, ..BEFORE };
        assert_eq!(kept.to_binding(at(kept.expires_unix_ms), HOUR), None);
        let early = kept.to_binding(at(0), HOUR).unwrap();
        assert_eq!(early.expires, BEFORE.now + HOUR);
        for damaged in [
            KeptBinding {
                contact: "<sip".to_owned(),
                ..kept.clone()
            },
            KeptBinding {
                q: 1001,
                ..kept.clone()
            },
            KeptBinding {
                path: ",".to_owned(),
                ..kept.clone()
            },
            KeptBinding {
                call_id: "a b".to_owned(),
                ..kept.clone()
            },
        ] {
            assert_eq!(damaged.to_binding(BEFORE, HOUR), None, "{damaged:?}");
        }
    }
}
