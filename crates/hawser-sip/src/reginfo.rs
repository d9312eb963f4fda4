//! Documents with the bindings of an address of record: the event package `reg` (RFC 3680).

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
    /// Version within the subscription, which rises by one with each document.
    pub version: u32,
    /// Whether it lists everything, or changes only.
    pub is_full: bool,
    /// State of each address of record.
    pub registrations: Vec<RegisteredAddress>,
}

/// One address of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredAddress {
    /// The address of record.
    pub address: String,
    /// Identifier of this address in later documents.
    pub id: String,
    /// Its contacts.
    pub contacts: Vec<RegisteredContact>,
}

/// One contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredContact {
    /// Identifier of this contact in later documents.
    pub id: String,
    /// The contact.
    pub uri: Uri,
    /// Whether it is bound now; otherwise it is no longer bound.
    pub is_active: bool,
    /// Reason for this state: `registered`, `refreshed`, `expired` and others.
    pub event: String,
    /// Its preference.
    pub q: Option<Q>,
    /// Seconds until it expires.
    pub expires: Option<u32>,
}

/// Why a document can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegInfoFault {
    /// The document is longer than allowed.
    #[error("a document of {0} bytes; at most {MAX_DOCUMENT} are read")]
    TooLong(usize),
    /// The document is no XML, has a document type, or has too many nodes.
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
    /// Creates the document that lists all bindings of an address of record.
    #[must_use]
    pub fn full(version: u32, now: Instant, address: &str, bindings: &[Binding]) -> Self {
        let contacts = bindings.iter().map(|binding| RegisteredContact {
            // The contact's URI identifies a binding, and stays the same after a refresh.
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

/// Bindings of one address of record, as a subscriber knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    version: Option<u32>,
    contacts: BTreeMap<String, RegisteredContact>,
}

/// A document is missing: the subscriber must request full state again (RFC 3680 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a document before version {0} is missing")]
pub struct Gap(pub u32);

impl Watched {
    /// Handles a document of the registrar. Returns whether anything changed. A document older than
    /// the latest changes nothing. A full document also counts with an unchanged version: Kamailio
    /// 5.6 gives all documents version 0, and the numbers of NOTIFY keep their order.
    ///
    /// # Errors
    /// When an earlier document is missing.
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

    /// Forgets the version, because a new subscription starts with version 0.
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
