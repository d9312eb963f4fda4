//! The bytes behind the `#`.

use std::net::IpAddr;

use hawser_types::Host;
use ring::digest;
use zeroize::Zeroizing;

use super::error::{InviteError, MAX_ADDRESSES};
use super::parts::Invite;
use crate::host_port::{HostPort, ParseHostPortError};
use crate::identity::PublicKey;
use crate::unix_time::UnixTime;

/// Encodes everything but the first address.
pub(super) fn encode(invite: &Invite) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LENGTH));
    bytes.push(VERSION);
    bytes.extend_from_slice(invite.gateway.as_bytes());
    bytes.extend_from_slice(invite.secret.as_ref());
    bytes.extend_from_slice(&invite.expires.as_secs().to_be_bytes());
    let further = invite.addresses.get(1..).unwrap_or_default();
    // At most 15, as the invite was checked when it was created.
    bytes.push(further.len() as u8);
    for address in further {
        match address.host() {
            Host::Ip(IpAddr::V4(ip)) => {
                bytes.push(KIND_IPV4);
                bytes.extend_from_slice(&ip.octets());
            }
            Host::Ip(IpAddr::V6(ip)) => {
                bytes.push(KIND_IPV6);
                bytes.extend_from_slice(&ip.octets());
            }
            Host::Name(name) => {
                // A name has at most 253 characters.
                bytes.extend_from_slice(&[KIND_NAME, name.as_str().len() as u8]);
                bytes.extend_from_slice(name.as_str().as_bytes());
            }
        }
        bytes.extend_from_slice(&address.port().to_be_bytes());
    }
    let check = check_sum(&bytes);
    bytes.extend_from_slice(&check);
    bytes
}

/// Decodes an invite; `first` is the address that stands outside of these bytes.
pub(super) fn decode(bytes: &[u8], first: HostPort) -> Result<Invite, InviteError> {
    let (content, check) = bytes.split_last_chunk().ok_or(InviteError::Damaged)?;
    // Checks the version before the check sum: a later version may use another check sum.
    match content.first() {
        None | Some(&VERSION) => {}
        Some(&got) => return Err(InviteError::Version { got }),
    }
    if check_sum(content) != *check {
        return Err(InviteError::Damaged);
    }
    let mut reader = Reader(content);
    let _version: [u8; 1] = reader.array()?;
    let gateway = PublicKey::from_bytes(reader.array()?);
    let secret = Zeroizing::new(reader.array()?);
    let expires = UnixTime::from_secs(u64::from_be_bytes(reader.array()?));
    let [further] = reader.array()?;
    let further = usize::from(further);
    if further >= MAX_ADDRESSES {
        return Err(InviteError::AddressCount { got: further + 1 });
    }
    let mut addresses = vec![first];
    for _ in 0..further {
        addresses.push(reader.address()?);
    }
    if !reader.0.is_empty() {
        return Err(InviteError::Malformed {
            what: "bytes behind the last address",
        });
    }
    Invite::new(gateway, addresses, secret, expires)
}

fn check_sum(bytes: &[u8]) -> [u8; CHECK_LENGTH] {
    let hash = digest::digest(&digest::SHA256, bytes);
    let mut check = [0; CHECK_LENGTH];
    check
        .iter_mut()
        .zip(hash.as_ref())
        .for_each(|(to, from)| *to = *from);
    check
}

/// The bytes that have not been read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], InviteError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(*array)
    }

    fn address(&mut self) -> Result<HostPort, InviteError> {
        let host = match self.array()? {
            [KIND_IPV4] => Host::from(IpAddr::from(self.array::<4>()?)),
            [KIND_IPV6] => Host::from(IpAddr::from(self.array::<16>()?)),
            [KIND_NAME] => {
                let [length] = self.array()?;
                let (name, rest) = self
                    .0
                    .split_at_checked(usize::from(length))
                    .ok_or(TRUNCATED)?;
                self.0 = rest;
                let name = std::str::from_utf8(name).map_err(|_| InviteError::Malformed {
                    what: "a name that is not utf-8",
                })?;
                let host = name.parse().map_err(|_| ParseHostPortError::host(name))?;
                Host::Name(host)
            }
            _ => {
                return Err(InviteError::Malformed {
                    what: "an address of an unknown kind",
                });
            }
        };
        Ok(HostPort::new(host, u16::from_be_bytes(self.array()?))?)
    }
}

const TRUNCATED: InviteError = InviteError::Malformed {
    what: "it ends too early",
};
const VERSION: u8 = 1;
const KIND_NAME: u8 = 0;
const KIND_IPV4: u8 = 4;
const KIND_IPV6: u8 = 6;
const CHECK_LENGTH: usize = 4;
/// Reserved at once, so that reallocation leaves no copy of the secret behind.
const MAX_LENGTH: usize = 1 + 32 + 32 + 8 + 1 + (MAX_ADDRESSES - 1) * (2 + 253 + 2) + CHECK_LENGTH;
