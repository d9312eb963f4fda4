use std::fmt;
use std::path::Path;

use ring::hkdf;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use super::error::{InviteError, MAX_ADDRESSES};
use crate::files;
use crate::host_port::HostPort;
use crate::identity::{Identity, IdentityError, PublicKey};
use crate::unix_time::UnixTime;

/// Permission for one client to enrol with one gateway.
///
/// Any host that has the text can enrol, once, so the text is a secret until then. The gateway does
/// not store it: it stores the public half of [`Self::enrolment_identity`].
#[derive(Clone, PartialEq, Eq)]
pub struct Invite {
    pub(super) gateway: PublicKey,
    pub(super) addresses: Vec<HostPort>,
    pub(super) secret: Zeroizing<[u8; 32]>,
    pub(super) expires: UnixTime,
}

impl Invite {
    /// Generates an invite to the gateway with key `gateway` at `addresses`, with a secret from the
    /// system's random numbers.
    pub fn generate(
        gateway: PublicKey,
        addresses: Vec<HostPort>,
        expires: UnixTime,
    ) -> Result<Self, InviteError> {
        let mut secret = Zeroizing::new([0; 32]);
        SystemRandom::new()
            .fill(secret.as_mut())
            .map_err(|_| InviteError::Identity(IdentityError::NoRandomness))?;
        Self::new(gateway, addresses, secret, expires)
    }

    /// Makes an invite from these parts; 1 to [`MAX_ADDRESSES`] addresses.
    pub fn new(
        gateway: PublicKey,
        addresses: Vec<HostPort>,
        secret: Zeroizing<[u8; 32]>,
        expires: UnixTime,
    ) -> Result<Self, InviteError> {
        match addresses.len() {
            1..=MAX_ADDRESSES => Ok(Self {
                gateway,
                addresses,
                secret,
                expires,
            }),
            got => Err(InviteError::AddressCount { got }),
        }
    }

    /// Returns the key that the gateway proves in the TLS handshake.
    pub const fn gateway(&self) -> PublicKey {
        self.gateway
    }

    /// Returns the addresses of the gateway, 1 to [`MAX_ADDRESSES`], the best first.
    pub fn addresses(&self) -> &[HostPort] {
        &self.addresses
    }

    /// Returns the time from which the gateway refuses the invite.
    pub const fn expires(&self) -> UnixTime {
        self.expires
    }

    /// Returns whether the invite is expired at `now`.
    pub fn is_expired(&self, now: UnixTime) -> bool {
        now >= self.expires
    }

    /// Returns the identity that a client with this invite proves in the TLS handshake.
    ///
    /// Its seed is HKDF-SHA256 of the secret, without salt, for the purpose
    /// `hawser invite identity`; so the gateway needs to keep only the public half.
    pub fn enrolment_identity(&self) -> Identity {
        let mut seed = Zeroizing::new([0; 32]);
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[])
            .extract(self.secret.as_ref())
            .expand(&[ENROLMENT_PURPOSE], hkdf::HKDF_SHA256)
            .and_then(|material| material.fill(seed.as_mut()))
            .expect("the seed has the length of the hash, which HKDF can always fill");
        Identity::from_seed(*seed)
    }

    /// Returns the line to hand over, the same as [`fmt::Display`], wiped when dropped.
    pub fn to_line(&self) -> Zeroizing<String> {
        Zeroizing::new(self.to_string())
    }

    /// Writes the line and a line end to the file `path`, mode 0600, whole or not at all.
    pub fn write_file(&self, path: &Path) -> Result<(), InviteError> {
        let mut line = self.to_line();
        line.push('\n');
        files::replace(path, line.as_bytes())?;
        Ok(())
    }
}

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invite")
            .field("gateway", &self.gateway)
            .field("addresses", &self.addresses)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

const ENROLMENT_PURPOSE: &[u8] = b"hawser invite identity";
