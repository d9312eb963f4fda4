use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Host, HostName};

/// The name of a host in a directory: `USER@DOMAIN`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostNameAt {
    user: String,
    domain: Host,
}

impl HostNameAt {
    /// Returns the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the domain.
    pub fn domain(&self) -> &Host {
        &self.domain
    }

    /// Returns the host name that programs ask for: `bob.example.org` for `bob@example.org`.
    /// `None` where the user is no label of a host name, or the domain is an address.
    pub fn host_name(&self) -> Option<HostName> {
        let Host::Name(domain) = self.domain.to_canonical() else {
            return None;
        };
        if self.user.contains('.') {
            // Of `a.b@c` and `b@…` in a domain `c` one would pass for the other.
            return None;
        }
        format!("{}.{domain}", self.user).parse().ok()
    }
}

impl fmt::Display for HostNameAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.domain)
    }
}

impl FromStr for HostNameAt {
    type Err = HostNameAtError;

    fn from_str(text: &str) -> Result<Self, HostNameAtError> {
        let (user, domain) = text.split_once('@').ok_or(HostNameAtError)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()+".contains(&byte);
        if user.is_empty() || user.len() > MAX_USER || !user.bytes().all(is_plain) {
            return Err(HostNameAtError);
        }
        Ok(Self {
            user: user.to_owned(),
            domain: domain.parse().map_err(|_| HostNameAtError)?,
        })
    }
}

impl TryFrom<String> for HostNameAt {
    type Error = HostNameAtError;

    fn try_from(text: String) -> Result<Self, HostNameAtError> {
        text.parse()
    }
}

impl From<HostNameAt> for String {
    fn from(name: HostNameAt) -> Self {
        name.to_string()
    }
}

/// A text that is no name of a host in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a name such as alice@example.org")]
pub struct HostNameAtError;

/// Bytes of a user's name.
const MAX_USER: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn host_name(text: &str) -> Option<String> {
        let name: HostNameAt = text.parse().unwrap();
        name.host_name().map(|it| it.to_string())
    }

    #[test]
    fn a_name_in_a_directory_has_the_host_name_that_programs_ask_for() {
        let name = host_name("Bob@Example.org");
        assert_eq!(name.as_deref(), Some("bob.example.org"));
        let name = host_name("bob@example.org.");
        assert_eq!(name.as_deref(), Some("bob.example.org"));
        for without in ["a.b@example.org", "b!@example.org", "bob@192.0.2.1"] {
            assert_eq!(host_name(without), None, "{without}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("{}@example.org", "a".repeat(65));
        for text in ["bob", "@example.org", "b b@example.org", "bob@", &long] {
            assert_eq!(text.parse::<HostNameAt>(), Err(HostNameAtError), "{text}");
        }
    }
}
