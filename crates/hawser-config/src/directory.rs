use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use hawser_types::Host;
use ipnet::IpNet;

use crate::ConfigError;
use crate::address::{read_listen, read_networks};
use crate::document::{Field, key, optional};

/// `[directory]`: the SIP registrar and proxy of `hawser serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// `domains`: the domains that it is for, such as `example.org`; the first one is the realm of
    /// passwords. None by default: there is no directory.
    pub domains: Vec<Host>,
    /// `listen`: addresses for datagrams and for TCP. Default `[::]:5060`.
    pub listen: Vec<SocketAddr>,
    /// `tls-listen`: addresses for TLS, with `certificate` and `private-key`. None by default.
    pub tls_listen: Vec<SocketAddr>,
    /// `certificate`: file with the chain of certificates, in PEM.
    pub certificate: Option<PathBuf>,
    /// `private-key`: file with its key, in PEM.
    pub private_key: Option<PathBuf>,
    /// `users-file`: file with a line `NAME:PASSWORD` for each user.
    pub users_file: Option<PathBuf>,
    /// `digests`: what passwords are proved by, in the order in which they are offered.
    /// Default SHA-256, then MD5.
    pub digests: Vec<Digest>,
    /// `allow-contact`: networks that users' contacts may lead to although they are private or
    /// local. None by default: contacts lead to the internet, and to where the user registers from.
    pub allow_contact: Vec<IpNet>,
    /// `limits`: bounds of what others can make it hold and do.
    pub limits: DirectoryLimits,
}

/// The hash of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// For programs that know nothing better.
    Md5,
    /// For all other programs (RFC 8760).
    Sha256,
}

impl Digest {
    /// The hashes by their names.
    pub(crate) const WORDS: [(&'static str, Self); 2] =
        [("SHA-256", Self::Sha256), ("MD5", Self::Md5)];
}

/// `[directory.limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryLimits {
    /// `addresses`: users who are registered at once. Default 100,000.
    pub addresses: u32,
    /// `requests-per-second`: of one IPv4 address or IPv6 /64; four times as many at once.
    /// Default 10.
    pub requests_per_second: u32,
    /// `connections`: at once, an eighth of them from one address. Default 1024.
    pub connections: u32,
}

impl DirectoryConfig {
    /// Returns what is missing or does not fit, in words; `None` when all is well.
    pub fn problem(&self) -> Option<&'static str> {
        if self.domains.is_empty() {
            return None;
        }
        let has_certificate = self.certificate.is_some() && self.private_key.is_some();
        let has_half = self.certificate.is_some() != self.private_key.is_some();
        match self.tls_listen.is_empty() {
            _ if self.users_file.is_none() => {
                Some("a directory needs a users-file (--directory-users) with lines NAME:PASSWORD")
            }
            _ if has_half => Some("certificate and private-key of a directory belong together"),
            false if !has_certificate => {
                Some("tls-listen of a directory needs a certificate and a private-key")
            }
            true if has_certificate => Some("the certificate of a directory needs a tls-listen"),
            _ if self.listen.is_empty() && self.tls_listen.is_empty() => {
                Some("a directory needs an address to listen at")
            }
            _ => None,
        }
    }
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self {
            domains: Vec::new(),
            listen: vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), SIP_PORT)],
            tls_listen: Vec::new(),
            certificate: None,
            private_key: None,
            users_file: None,
            digests: vec![Digest::Sha256, Digest::Md5],
            allow_contact: Vec::new(),
            limits: DirectoryLimits::default(),
        }
    }
}

impl Default for DirectoryLimits {
    fn default() -> Self {
        Self {
            addresses: 100_000,
            requests_per_second: 10,
            connections: 1024,
        }
    }
}

impl DirectoryConfig {
    pub(crate) fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        section.read_keys(vec![
            key("domains", &mut config.domains, |f| {
                f.list(DOMAINS, |f| f.parse(DOMAINS))
            }),
            key("listen", &mut config.listen, read_addresses),
            key("tls-listen", &mut config.tls_listen, read_addresses),
            optional("certificate", &mut config.certificate, read_path),
            optional("private-key", &mut config.private_key, read_path),
            optional("users-file", &mut config.users_file, read_path),
            key("digests", &mut config.digests, |f| {
                f.list(DIGESTS, |f| f.word(&Digest::WORDS))
            }),
            key("allow-contact", &mut config.allow_contact, read_networks),
            key("limits", &mut config.limits, DirectoryLimits::read),
        ])?;
        if config.digests.is_empty() {
            return Err(section.refuse("digests", DIGESTS));
        }
        Ok(config)
    }
}

impl DirectoryLimits {
    fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut limits = Self::default();
        let count = |name, place| key(name, place, |f| f.integer(1..=MAX_LIMIT));
        section.read_keys(vec![
            count("addresses", &mut limits.addresses),
            count("requests-per-second", &mut limits.requests_per_second),
            count("connections", &mut limits.connections),
        ])?;
        Ok(limits)
    }
}

fn read_addresses(field: &Field<'_>) -> Result<Vec<SocketAddr>, ConfigError> {
    field.list("a list of addresses such as [\"[::]:5060\"]", read_listen)
}

/// Reads the path of a file.
pub(crate) fn read_path(field: &Field<'_>) -> Result<PathBuf, ConfigError> {
    let is_allowed = |path: &PathBuf| !path.as_os_str().is_empty();
    field.parse_if(is_allowed, "the path of a file")
}

const DOMAINS: &str = "a list of names such as [\"example.org\"]";
const DIGESTS: &str = "a list of \"SHA-256\" and \"MD5\"";
/// The port of SIP (RFC 3261 §19.1.2).
const SIP_PORT: u16 = 5060;
const MAX_LIMIT: u32 = 10_000_000;
