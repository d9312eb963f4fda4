//! What a registrar tells of the bindings of an address of record: the event package `reg` (RFC
//! 3680).

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

use hawser_types::Instant;
use thiserror::Error;

use crate::SyntaxFault;
use crate::fields::Q;
use crate::registrar::Binding;
use crate::uri::Uri;

/// The name of the event package.
pub const PACKAGE: &str = "reg";

/// The media type of its documents.
pub const CONTENT_TYPE: &str = "application/reginfo+xml";

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegInfo {
    /// Its number within the subscription: one more each time.
    pub version: u32,
    /// Whether it tells everything, or changes only.
    pub is_full: bool,
    /// What it tells, for each address of record.
    pub registrations: Vec<RegisteredAddress>,
}

/// One address of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredAddress {
    /// The address of record.
    pub address: String,
    /// A word that stands for it in later documents.
    pub id: String,
    /// Its contacts.
    pub contacts: Vec<RegisteredContact>,
}

/// One contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredContact {
    /// A word that stands for it in later documents.
    pub id: String,
    /// The contact.
    pub uri: Uri,
    /// Whether it is bound; otherwise it was, and is no longer.
    pub is_active: bool,
    /// Why it is so: `registered`, `refreshed`, `expired` and others.
    pub event: String,
    /// Its preference.
    pub q: Option<Q>,
    /// Seconds until it ends.
    pub expires: Option<u32>,
}

/// Why a document can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegInfoFault {
    /// It is longer than is read.
    #[error("a document of {0} bytes; at most {MAX_DOCUMENT} are read")]
    TooLong(usize),
    /// It is no XML, has a document type, or more elements than are read.
    #[error("the document is not well-formed: {0}")]
    Xml(String),
    /// An element or attribute is missing, or its value can't be read.
    #[error("{0} is missing or can't be read")]
    Value(&'static str),
    /// A contact is no URI.
    #[error("a contact: {0}")]
    Uri(#[from] SyntaxFault),
}

impl RegInfo {
    /// The document that tells all bindings of an address of record.
    #[must_use]
    pub fn full(version: u32, now: Instant, address: &str, bindings: &[Binding]) -> Self {
        let contacts = bindings.iter().map(|binding| RegisteredContact {
            // What identifies a binding stays the same when it is refreshed.
            id: format!("c{:x}", fingerprint(&binding.contact.uri.to_string())),
            uri: binding.contact.uri.clone(),
            is_active: true,
            event: "registered".to_owned(),
            q: Some(binding.q),
            expires: u32::try_from(binding.expires.since(now).as_secs()).ok(),
        });
        Self {
            version,
            is_full: true,
            registrations: vec![RegisteredAddress {
                address: address.to_owned(),
                id: format!("a{:x}", fingerprint(address)),
                contacts: contacts.collect(),
            }],
        }
    }
}

/// FNV-1a: the same on every machine, and no secret.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// What a subscriber knows of the bindings of one address of record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    version: Option<u32>,
    contacts: BTreeMap<String, RegisteredContact>,
}

/// A document is missing: the subscriber has to ask for everything again (RFC 3680 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a document before version {0} is missing")]
pub struct Gap(pub u32);

impl Watched {
    /// Takes a document of the registrar. Returns whether anything changed; a document that is
    /// older than one that has come changes nothing. One that tells everything counts also with the
    /// version of the one before: Kamailio 5.6 gives all of them version 0, and the numbers of
    /// NOTIFY keep their order.
    ///
    /// # Errors
    /// When one before it is missing.
    pub fn handle(&mut self, info: &RegInfo) -> Result<bool, Gap> {
        let is_old = |version| {
            if info.is_full {
                info.version < version
            } else {
                info.version <= version
            }
        };
        if self.version.is_some_and(is_old) {
            return Ok(false);
        }
        let follows = self.version.and_then(|version| version.checked_add(1)) == Some(info.version);
        if !info.is_full && !follows {
            return Err(Gap(info.version));
        }
        self.version = Some(info.version);
        let before = self.contacts.clone();
        if info.is_full {
            self.contacts.clear();
        }
        let contacts = info.registrations.iter().flat_map(|one| &one.contacts);
        for contact in contacts {
            if !contact.is_active {
                self.contacts.remove(&contact.id);
            } else if self.contacts.len() < MAX_CONTACTS {
                self.contacts.insert(contact.id.clone(), contact.clone());
            }
        }
        Ok(self.contacts != before)
    }

    /// Begins again with version 0, as a new subscription does.
    pub fn restart(&mut self) {
        self.version = None;
    }

    /// Returns the contacts, the preferred ones first.
    #[must_use]
    pub fn contacts(&self) -> Vec<&RegisteredContact> {
        let mut contacts: Vec<_> = self.contacts.values().collect();
        contacts.sort_by_key(|contact| std::cmp::Reverse(contact.q.unwrap_or(Q::ONE)));
        contacts
    }
}

const NAMESPACE: &str = "urn:ietf:params:xml:ns:reginfo";
const MAX_DOCUMENT: usize = 64 << 10;
const MAX_CONTACTS: usize = 64;
