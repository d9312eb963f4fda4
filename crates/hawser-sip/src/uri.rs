//! URIs: destinations of requests, and identities of users (RFC 3261 §19.1).

mod compare;
mod escape;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use hawser_types::Host;

use crate::cursor::{Cursor, SyntaxFault};
pub use escape::unescape;
use escape::{is_unreserved, read_escaped};

/// A URI: `sip:`, `sips:`, or another scheme that is kept as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// `sip:` or `sips:`.
    Sip(Box<SipUri>),
    /// Another scheme, such as `tel:`.
    Other(OtherUri),
}

/// A URI with a scheme that SIP does not define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherUri {
    scheme: String,
    rest: String,
}

/// `sip:user:password@host:port;parameters?headers`.
///
/// Escapes are kept, because the identity of a URI depends on them. `==` compares the text;
/// [`SipUri::is_equivalent`] compares as RFC 3261 §19.1.4 does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipUri {
    /// Whether the scheme is `sips:`, which demands TLS on every hop.
    pub is_secure: bool,
    user: Option<String>,
    password: Option<String>,
    /// The host, in lower case.
    pub host: Host,
    /// The port, if present. RFC 3261 distinguishes a missing port from the default.
    pub port: Option<u16>,
    params: Vec<(String, Option<String>)>,
    headers: Vec<(String, String)>,
}

impl Uri {
    /// Returns the SIP URI; `None` for another scheme.
    #[must_use]
    pub fn as_sip(&self) -> Option<&SipUri> {
        match self {
            Self::Sip(uri) => Some(uri),
            Self::Other(_) => None,
        }
    }

    /// Returns the scheme, in lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        match self {
            Self::Sip(uri) if uri.is_secure => "sips",
            Self::Sip(_) => "sip",
            Self::Other(uri) => &uri.scheme,
        }
    }

    /// Whether both are equivalent (RFC 3261 §19.1.4). Other schemes are compared as text.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sip(one), Self::Sip(two)) => one.is_equivalent(two),
            (Self::Other(one), Self::Other(two)) => one == two,
            _ => false,
        }
    }

    /// Parses all of `text` as a URI.
    fn parse(text: &str) -> Result<Self, SyntaxFault> {
        let mut cursor = Cursor::new(text);
        let scheme =
            cursor.take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let begins_well = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
        if !begins_well || !cursor.eat_exactly(":") {
            return Err(SyntaxFault::Expected("a scheme such as sip:"));
        }
        let scheme = scheme.to_ascii_lowercase();
        if matches!(scheme.as_str(), "sip" | "sips") {
            let uri = SipUri::read(&mut cursor, scheme == "sips")?;
            return Ok(Self::Sip(Box::new(uri)));
        }
        let rest = cursor.rest();
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"<>\"".contains(&byte);
        if rest.is_empty() || !rest.bytes().all(is_allowed) {
            return Err(SyntaxFault::Expected(
                "a URI without spaces and quotation marks",
            ));
        }
        let rest = rest.to_owned();
        Ok(Self::Other(OtherUri { scheme, rest }))
    }
}

impl SipUri {
    /// Creates `sip:host`, optionally with user and port.
    ///
    /// # Errors
    /// When `user` needs an escape, see [`SipUri::escaped_user`].
    pub fn new(user: Option<&str>, host: Host, port: Option<u16>) -> Result<Self, SyntaxFault> {
        if let Some(user) = user {
            let mut cursor = Cursor::new(user);
            let read = read_escaped(&mut cursor, is_user)?;
            if read.is_empty() || !cursor.is_at_end() {
                return Err(SyntaxFault::Expected("the name of a user"));
            }
        }
        Ok(Self {
            is_secure: false,
            user: user.map(str::to_owned),
            password: None,
            host,
            port,
            params: Vec::new(),
            headers: Vec::new(),
        })
    }

    /// Returns the user with escapes.
    #[must_use]
    pub fn escaped_user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the user without escapes; `None` also if they hide control characters or bytes that
    /// are no UTF-8.
    #[must_use]
    pub fn user(&self) -> Option<String> {
        unescape(self.user.as_deref()?)
    }

    /// Returns a parameter's text; empty for a parameter without a value.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        let mut params = self.params.iter();
        let found = params.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_deref().unwrap_or_default())
    }

    /// Sets a parameter. Returns `false` if name or value would need an escape.
    pub fn set_param(&mut self, name: &str, value: Option<&str>) -> bool {
        let is_good = |text: &str| !text.is_empty() && text.bytes().all(is_param);
        if !is_good(name) || !value.is_none_or(is_good) {
            return false;
        }
        self.params
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.params
            .push((name.to_owned(), value.map(str::to_owned)));
        true
    }

    /// Whether the URI has headers, such as `?subject=lunch`.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        !self.headers.is_empty()
    }

    /// Returns the address of record: the URI without password, parameters and headers, with only
    /// the necessary escapes in the user (RFC 3261 §10.3 step 5). `None` without a user.
    #[must_use]
    pub fn address_of_record(&self) -> Option<String> {
        let user = escape::normalized(self.user.as_deref()?);
        let scheme = if self.is_secure { "sips" } else { "sip" };
        let host = self.host.to_canonical();
        Some(match self.port {
            Some(port) => format!("{scheme}:{user}@{host}:{port}"),
            None => format!("{scheme}:{user}@{host}"),
        })
    }

    fn read(cursor: &mut Cursor<'_>, is_secure: bool) -> Result<Self, SyntaxFault> {
        let (user, password) = read_user(cursor)?;
        let host = read_host(cursor)?;
        let port = read_port(cursor)?;
        let params = read_params(cursor)?;
        let headers = read_headers(cursor)?;
        if !cursor.is_at_end() {
            return Err(SyntaxFault::Expected("the end of the URI"));
        }
        Ok(Self {
            is_secure,
            user,
            password,
            host,
            port,
            params,
            headers,
        })
    }
}

impl FromStr for Uri {
    type Err = SyntaxFault;

    fn from_str(text: &str) -> Result<Self, SyntaxFault> {
        Self::parse(text)
    }
}

impl From<SipUri> for Uri {
    fn from(uri: SipUri) -> Self {
        Self::Sip(Box::new(uri))
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sip(uri) => uri.fmt(f),
            Self::Other(uri) => write!(f, "{}:{}", uri.scheme, uri.rest),
        }
    }
}

impl fmt::Display for SipUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_secure { "sips:" } else { "sip:" })?;
        if let Some(user) = &self.user {
            f.write_str(user)?;
            if let Some(password) = &self.password {
                write!(f, ":{password}")?;
            }
            f.write_str("@")?;
        }
        self.host.fmt(f)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        for (name, value) in &self.params {
            match value {
                Some(value) => write!(f, ";{name}={value}")?,
                None => write!(f, ";{name}")?,
            }
        }
        for (number, (name, value)) in self.headers.iter().enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            write!(f, "{mark}{name}={value}")?;
        }
        Ok(())
    }
}

/// Reads `host [":" port]`, as in URIs and in Via.
pub(crate) fn read_host(cursor: &mut Cursor<'_>) -> Result<Host, SyntaxFault> {
    const WHAT: &str = "a host";
    if cursor.eat_exactly("[") {
        let address = cursor.take_until(&[']']).parse::<Ipv6Addr>();
        let (Ok(address), true) = (address, cursor.eat_exactly("]")) else {
            return Err(SyntaxFault::Expected("an IPv6 address in brackets"));
        };
        return Ok(Host::Ip(address.into()));
    }
    let text = cursor.take_while(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    text.parse().map_err(|_| SyntaxFault::Expected(WHAT))
}

/// Reads `[":" port]` without any space.
fn read_port(cursor: &mut Cursor<'_>) -> Result<Option<u16>, SyntaxFault> {
    if cursor.eat_exactly(":") {
        port_number(cursor).map(Some)
    } else {
        Ok(None)
    }
}

/// Reads a port.
pub(crate) fn port_number(cursor: &mut Cursor<'_>) -> Result<u16, SyntaxFault> {
    let port = cursor.number("a port", u64::from(u16::MAX))?;
    Ok(port as u16)
}

/// Reads `[ user [ ":" password ] "@" ]`. A host has no `@`, so that character decides.
fn read_user(cursor: &mut Cursor<'_>) -> Result<(Option<String>, Option<String>), SyntaxFault> {
    if !cursor.rest().contains('@') {
        return Ok((None, None));
    }
    let user = read_escaped(cursor, is_user)?.to_owned();
    if user.is_empty() {
        return Err(SyntaxFault::Expected("the name of a user"));
    }
    let password = if cursor.eat_exactly(":") {
        Some(read_escaped(cursor, is_password)?.to_owned())
    } else {
        None
    };
    if cursor.eat_exactly("@") {
        Ok((Some(user), password))
    } else {
        Err(SyntaxFault::Expected("@"))
    }
}

type UriParams = Vec<(String, Option<String>)>;

fn read_params(cursor: &mut Cursor<'_>) -> Result<UriParams, SyntaxFault> {
    let mut params = UriParams::new();
    while cursor.eat_exactly(";") {
        let name = read_escaped(cursor, is_param)?;
        if name.is_empty() {
            return Err(SyntaxFault::Expected("the name of a parameter"));
        }
        let value = if cursor.eat_exactly("=") {
            match read_escaped(cursor, is_param)? {
                "" => return Err(SyntaxFault::Expected("the value of a parameter")),
                value => Some(value.to_owned()),
            }
        } else {
            None
        };
        if params
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
        {
            return Err(SyntaxFault::Repeated(name.to_owned()));
        }
        if params.len() == MAX_PARTS {
            return Err(SyntaxFault::TooMany(MAX_PARTS));
        }
        params.push((name.to_owned(), value));
    }
    Ok(params)
}

fn read_headers(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>, SyntaxFault> {
    let mut headers = Vec::new();
    let mut mark = "?";
    while cursor.eat_exactly(mark) {
        mark = "&";
        let name = read_escaped(cursor, is_header)?;
        if name.is_empty() || !cursor.eat_exactly("=") {
            return Err(SyntaxFault::Expected("a header such as subject=lunch"));
        }
        if headers.len() == MAX_PARTS {
            return Err(SyntaxFault::TooMany(MAX_PARTS));
        }
        let value = read_escaped(cursor, is_header)?;
        headers.push((name.to_owned(), value.to_owned()));
    }
    Ok(headers)
}

fn is_user(byte: u8) -> bool {
    is_unreserved(byte) || b"&=+$,;?/".contains(&byte)
}

fn is_password(byte: u8) -> bool {
    is_unreserved(byte) || b"&=+$,".contains(&byte)
}

fn is_param(byte: u8) -> bool {
    is_unreserved(byte) || b"[]/:&+$".contains(&byte)
}

fn is_header(byte: u8) -> bool {
    is_unreserved(byte) || b"[]/?:+$".contains(&byte)
}

/// Limit of parameters, or headers, of one URI.
const MAX_PARTS: usize = 64;
