use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host to connect to: an address, or a name that is still to be resolved.
///
/// The text form is `192.0.2.1`, `[2001:db8::1]` or `www.example.org`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address, as it was given: an IPv4-mapped IPv6 address stays one.
    Ip(IpAddr),
    /// A name.
    Name(HostName),
}

impl Host {
    /// Reads the bytes of a name field, as proxy protocols have one: a name, or an address as text
    /// without brackets.
    ///
    /// # Errors
    /// [`HostError::Name`] when they are neither.
    pub fn from_name_bytes(bytes: &[u8]) -> Result<Self, HostError> {
        let text = std::str::from_utf8(bytes).map_err(|_| HostError::Name)?;
        match text.parse() {
            Ok(address) => Ok(Self::Ip(address)),
            Err(_) => text.parse().map(Self::Name),
        }
    }

    /// Returns the same host in its plainest form: an IPv4-mapped address as the IPv4 address, a
    /// name without its final dot.
    #[must_use]
    pub fn to_canonical(&self) -> Self {
        match self {
            Self::Ip(address) => Self::Ip(address.to_canonical()),
            Self::Name(name) => {
                let relative = name.0.strip_suffix('.').unwrap_or(&name.0);
                Self::Name(HostName(relative.to_owned()))
            }
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl FromStr for Host {
    type Err = HostError;

    /// Reads a name or an address; an IPv6 address may stand in brackets or bare.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let bracketed = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        match bracketed {
            Some(address) => address
                .parse::<Ipv6Addr>()
                .map(|address| Self::Ip(address.into()))
                .map_err(|_| HostError::Address),
            None => Self::from_name_bytes(text.as_bytes()),
        }
    }
}

/// A host name, in lower case: labels of 1 to 63 ASCII letters, digits, hyphens and underscores,
/// separated by dots.
///
/// Internationalised names come in their ASCII form. A final dot is kept, since it tells resolvers
/// to try no search domains. The last label is never a number: addresses end in numbers and names
/// do not, so that a mistyped address such as `1.2.3.999` is not looked up as a name, and a short
/// one such as `127.1` does not become an address in the resolver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The longest name in bytes: 253, and a final dot.
    ///
    /// In a DNS message a name takes at most 255 octets: each label with an octet for its length,
    /// and a zero octet for the root. As text, the dots stand for all of these octets but two.
    ///
    /// Source: RFC 1035 §§2.3.4, 3.1.
    pub const MAX_LENGTH: usize = 254;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if a label begins or ends with a hyphen. The DNS has such names and resolvers find
    /// them, but the rules for host names forbid them.
    ///
    /// Source: RFC 952; RFC 2181 §11 for what the DNS permits.
    pub fn has_hyphen_at_edge(&self) -> bool {
        let mut labels = self.0.split('.');
        labels.any(|label| label.starts_with('-') || label.ends_with('-'))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let relative = text.strip_suffix('.').unwrap_or(text);
        let last = relative.rsplit('.').next().unwrap_or_default();
        let is_like_an_address = last.bytes().all(|byte| byte.is_ascii_digit());
        if relative.len() >= Self::MAX_LENGTH
            || !relative.split('.').all(is_label)
            || is_like_an_address
        {
            return Err(HostError::Name);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

/// The reason why text is not a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Neither a host name nor an address.
    #[error(
        "expected an ip address, or a host name: labels of 1 to 63 letters, digits, - and _, \
         253 bytes at most, the last label not a number"
    )]
    Name,
    /// Brackets around something other than an IPv6 address.
    #[error("expected an IPv6 address in brackets")]
    Address,
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL_LENGTH).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Source: RFC 1035 §2.3.4.
const MAX_LABEL_LENGTH: usize = 63;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<String, HostError> {
        text.parse::<Host>().map(|host| host.to_string())
    }

    #[test]
    fn addresses_and_names_are_read() {
        for (text, shown) in [
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("2001:db8::1", "[2001:db8::1]"),
            ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]"),
            ("Www.Example.ORG.", "www.example.org."),
            ("4chan.org", "4chan.org"),
            ("_dmarc.-edge-.example", "_dmarc.-edge-.example"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn a_mistyped_address_is_not_a_name() {
        for text in ["1.2.3.999", "1.2.3", "127.1", "12345", "1.2.3.4.", "a.1"] {
            assert_eq!(read(text), Err(HostError::Name), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_host_is_refused() {
        for text in ["", ".", "a..b", ".a", "a b", "a/b", "ä.example", "a:1"] {
            assert_eq!(read(text), Err(HostError::Name), "{text}");
        }
        for text in ["[192.0.2.1]", "[]", "[a]"] {
            assert_eq!(read(text), Err(HostError::Address), "{text}");
        }
        assert_eq!(Host::from_name_bytes(b"a\xff"), Err(HostError::Name));
    }

    #[test]
    fn a_name_is_as_long_as_the_dns_permits() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(longest.len(), 253);
        assert!(longest.parse::<HostName>().is_ok());
        let with_dot = format!("{longest}.");
        assert_eq!(with_dot.len(), HostName::MAX_LENGTH);
        assert!(with_dot.parse::<HostName>().is_ok());
        assert_eq!(
            format!("{longest}a").parse::<HostName>(),
            Err(HostError::Name)
        );
        assert_eq!(
            format!("a{label}").parse::<HostName>(),
            Err(HostError::Name)
        );
    }

    #[test]
    fn the_canonical_form_has_neither_mapped_addresses_nor_a_final_dot() {
        let canonical = |text: &str| text.parse::<Host>().unwrap().to_canonical().to_string();
        assert_eq!(canonical("[::ffff:192.0.2.1]"), "192.0.2.1");
        assert_eq!(canonical("example.org."), "example.org");
        assert_eq!(canonical("example.org"), "example.org");
    }

    #[test]
    fn hyphens_at_the_edges_of_labels_are_found() {
        let at_edge = |text: &str| text.parse::<HostName>().unwrap().has_hyphen_at_edge();
        assert!(at_edge("-a.example") && at_edge("a.b-."));
        assert!(!at_edge("a-b.example"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,64}|[\\[\\]:.0-9a-f-]{0,30}") {
            if let Ok(host) = text.parse::<Host>() {
                prop_assert_eq!(host.to_string().parse(), Ok(host));
            }
        }
    }
}
