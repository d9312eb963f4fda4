//! A candidate address (RFC 8839 §5.1).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::cursor::{Cursor, SyntaxFault};
use crate::fields::{Field, Q};

/// An address at which one end can perhaps be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// A word that candidates of the same kind, host and link share.
    pub foundation: String,
    /// Its priority, 1 to 2^31 - 1; the higher, the better.
    pub priority: u32,
    /// The address.
    pub address: SocketAddr,
    /// How it was found.
    pub kind: CandidateKind,
    /// Local address behind a public one.
    pub related: Option<SocketAddr>,
    /// Its share of the rate of all addresses: the condition of MMS §II.B.
    pub share: Option<Q>,
}

/// How an address was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// It is the host's own.
    Host,
    /// Seen by a server, because NAT translates it.
    ServerReflexive,
    /// The peer has seen it.
    PeerReflexive,
    /// A relay has given it.
    Relayed,
}

impl CandidateKind {
    const ALL: [Self; 4] = [
        Self::Host,
        Self::ServerReflexive,
        Self::PeerReflexive,
        Self::Relayed,
    ];

    /// Returns the name in descriptions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::ServerReflexive => "srflx",
            Self::PeerReflexive => "prflx",
            Self::Relayed => "relay",
        }
    }
}

impl Field for Candidate {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let foundation = word(cursor, "a foundation")?;
        let is_ice = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
        if foundation.len() > 32 || !foundation.bytes().all(is_ice) {
            return Err(SyntaxFault::Expected(
                "a foundation of 32 characters at most",
            ));
        }
        expect(cursor, "1", "the component 1")?;
        expect(cursor, "UDP", "the transport UDP")?;
        let max = (1 << 31) - 1;
        let priority = part(cursor, |part| part.number("a priority", max))? as u32;
        if priority == 0 {
            return Err(SyntaxFault::Expected("a priority above 0"));
        }
        let address = address(cursor)?;
        expect(cursor, "typ", "typ")?;
        let name = word(cursor, "a kind of candidate")?;
        let mut kinds = CandidateKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.as_str() == name);
        let mut candidate = Self {
            foundation: foundation.to_owned(),
            priority,
            address,
            kind: kind.ok_or(SyntaxFault::Expected("host, srflx, prflx or relay"))?,
            related: None,
            share: None,
        };
        candidate.read_extensions(cursor)?;
        Ok(candidate)
    }
}

impl Candidate {
    /// Reads extensions; unknown ones are ignored with their values (RFC 8839 §5.1).
    fn read_extensions(&mut self, cursor: &mut Cursor<'_>) -> Result<(), SyntaxFault> {
        let mut related = None;
        while !cursor.is_at_end() {
            match word(cursor, "the name of an attribute")? {
                "raddr" => related = Some(ip(cursor)?),
                "rport" => {
                    let ip = related.ok_or(SyntaxFault::Expected("raddr before rport"))?;
                    self.related = Some(SocketAddr::new(ip, port(cursor)?));
                }
                SHARE => {
                    let share = part(cursor, |part| part.number("a share", 1000))?;
                    self.share = Q::from_thousandths(share as u16).ok();
                }
                _ => {
                    word(cursor, "the value of an attribute")?;
                }
            }
        }
        if related.is_some() && self.related.is_none() {
            Err(SyntaxFault::Expected("rport behind raddr"))
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ip, port) = (self.address.ip(), self.address.port());
        let kind = self.kind.as_str();
        let Self {
            foundation,
            priority,
            ..
        } = self;
        write!(f, "{foundation} 1 UDP {priority} {ip} {port} typ {kind}")?;
        if let Some(related) = self.related {
            write!(f, " raddr {} rport {}", related.ip(), related.port())?;
        }
        match self.share {
            Some(share) => write!(f, " {SHARE} {}", share.thousandths()),
            None => Ok(()),
        }
    }
}

/// Takes one word and the space behind it.
fn word<'a>(cursor: &mut Cursor<'a>, what: &'static str) -> Result<&'a str, SyntaxFault> {
    let word = cursor.take_until(&[' ']);
    let is_end = cursor.is_at_end();
    if word.is_empty() || !(is_end || cursor.eat_exactly(" ")) {
        Err(SyntaxFault::Expected(what))
    } else {
        Ok(word)
    }
}

fn expect(cursor: &mut Cursor<'_>, text: &str, what: &'static str) -> Result<(), SyntaxFault> {
    if word(cursor, what)?.eq_ignore_ascii_case(text) {
        Ok(())
    } else {
        Err(SyntaxFault::Expected(what))
    }
}

/// Reads all of one word.
fn part<T>(
    cursor: &mut Cursor<'_>,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, SyntaxFault>,
) -> Result<T, SyntaxFault> {
    let mut part = Cursor::new(word(cursor, "a number")?);
    let value = read(&mut part)?;
    part.end()?;
    Ok(value)
}

/// Parses an address. Names are not resolved, or a sender could trigger arbitrary look-ups.
fn ip(cursor: &mut Cursor<'_>) -> Result<IpAddr, SyntaxFault> {
    const WHAT: &str = "an IP address";
    word(cursor, WHAT)?
        .parse()
        .map_err(|_| SyntaxFault::Expected(WHAT))
}

fn port(cursor: &mut Cursor<'_>) -> Result<u16, SyntaxFault> {
    part(cursor, crate::uri::port_number)
}

fn address(cursor: &mut Cursor<'_>) -> Result<SocketAddr, SyntaxFault> {
    Ok(SocketAddr::new(ip(cursor)?, port(cursor)?))
}

/// Attribute of candidates that Hawser adds: a share in thousandths.
const SHARE: &str = "hawser-share";
