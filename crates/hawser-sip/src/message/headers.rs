//! The header fields of a message, and their typed values.

use std::fmt;
use std::net::IpAddr;

use thiserror::Error;

use super::HeaderName;
use crate::cursor::{SyntaxFault, is_field_text};
use crate::fields::{
    CSeq, CallId, Contacts, Event, Field, MaxForwards, NameAddr, Seconds, SubscriptionState, Token,
    Via,
};

/// Header fields in their order, with unparsed values; folded lines are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(HeaderName, String)>);

/// A fault of a header field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// Its value can't be read.
    #[error("{name}: {fault}")]
    Syntax {
        /// The header field.
        name: HeaderName,
        /// What is wrong with it.
        fault: SyntaxFault,
    },
    /// The field occurs more than once, and must not.
    #[error("{0} stands there more than once")]
    Repeated(HeaderName),
    /// A mandatory field is missing.
    #[error("{0} is missing")]
    Missing(HeaderName),
    /// CSeq names another method than the request.
    #[error("CSeq names the method {cseq}, the request {request}")]
    OtherMethod {
        /// The method in CSeq.
        cseq: String,
        /// The method of the request.
        request: String,
    },
}

impl HeaderFault {
    /// Returns the header field that is at fault.
    #[must_use]
    pub fn name(&self) -> &HeaderName {
        match self {
            Self::Syntax { name, .. } | Self::Repeated(name) | Self::Missing(name) => name,
            Self::OtherMethod { .. } => &HeaderName::CSeq,
        }
    }
}

impl Headers {
    /// Adds a header field at the end.
    ///
    /// # Panics
    /// Panics if the value would break the message: by a line end or another control character.
    pub fn push(&mut self, name: HeaderName, value: impl fmt::Display) {
        let value = checked(&name, &value);
        self.0.push((name, value));
    }

    /// Adds a header field at the beginning, as for Via and Record-Route.
    ///
    /// # Panics
    /// Panics as [`Headers::push`] does.
    pub fn push_front(&mut self, name: HeaderName, value: impl fmt::Display) {
        let value = checked(&name, &value);
        self.0.insert(0, (name, value));
    }

    /// Replaces all header fields of this name by one, at the place of the first.
    ///
    /// # Panics
    /// Panics as [`Headers::push`] does.
    pub fn set(&mut self, name: HeaderName, value: impl fmt::Display) {
        let value = checked(&name, &value);
        let place = self.0.iter().position(|(other, _)| *other == name);
        self.remove(&name);
        let place = place.unwrap_or(self.0.len());
        self.0.insert(place, (name, value));
    }

    /// Records the source of a request in its latest Via: see [`Via::set_source`].
    ///
    /// # Errors
    /// When Via can't be read.
    pub fn set_source(&mut self, address: IpAddr, port: u16) -> Result<(), HeaderFault> {
        let mut vias = self.vias()?;
        if let Some(first) = vias.first_mut() {
            first.set_source(address, port);
        }
        self.remove(&HeaderName::Via);
        for via in vias.iter().rev() {
            self.push_front(HeaderName::Via, via);
        }
        Ok(())
    }

    /// Removes all header fields of this name.
    pub fn remove(&mut self, name: &HeaderName) {
        self.0.retain(|(other, _)| other != name);
    }

    /// Returns the unparsed values of all header fields of this name.
    pub fn raw<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns names and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &str)> {
        self.0.iter().map(|(name, value)| (name, value.as_str()))
    }

    /// Whether there is a header field of this name.
    #[must_use]
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.raw(name).next().is_some()
    }

    /// Adds a parsed line.
    pub(super) fn push_read(&mut self, name: HeaderName, value: String) {
        self.0.push((name, value));
    }

    /// Appends a folded line to the value of the last header field; `false` if there is none.
    pub(super) fn extend_last(&mut self, folded: &str) -> bool {
        let Some((_, value)) = self.0.last_mut() else {
            return false;
        };
        if !value.is_empty() && !folded.is_empty() {
            value.push(' ');
        }
        value.push_str(folded);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Parses a header field that may occur once.
    pub(crate) fn one<T: Field>(&self, name: HeaderName) -> Result<Option<T>, HeaderFault> {
        let values: Vec<&str> = self.raw(&name).take(2).collect();
        match values[..] {
            [] => Ok(None),
            [value] => match T::parse(value) {
                Ok(read) => Ok(Some(read)),
                Err(fault) => Err(HeaderFault::Syntax { name, fault }),
            },
            _ => Err(HeaderFault::Repeated(name)),
        }
    }

    /// Parses all entries of a list.
    pub(crate) fn list<T: Field>(&self, name: HeaderName) -> Result<Vec<T>, HeaderFault> {
        // An empty list of option tags is valid, see RFC 3261 §25.1 `Supported`.
        let may_be_empty = MAY_BE_EMPTY.contains(&name);
        let mut list = Vec::new();
        let mut values = self
            .raw(&name)
            .filter(|value| !may_be_empty || !value.is_empty());
        match values.try_for_each(|value| T::parse_list(value, &mut list)) {
            Ok(()) => Ok(list),
            Err(fault) => Err(HeaderFault::Syntax {
                name: name.clone(),
                fault,
            }),
        }
    }

    fn needed<T: Field>(&self, name: HeaderName) -> Result<T, HeaderFault> {
        let read = self.one(name.clone())?;
        read.ok_or(HeaderFault::Missing(name))
    }
}

/// Typed access to known header fields. Each method fails if the field can't be parsed or occurs
/// too often.
impl Headers {
    /// Reads Via, the latest hop first.
    ///
    /// # Errors
    /// See above.
    pub fn vias(&self) -> Result<Vec<Via>, HeaderFault> {
        self.list(HeaderName::Via)
    }

    /// Reads From, which has to be there.
    ///
    /// # Errors
    /// See above.
    pub fn from(&self) -> Result<NameAddr, HeaderFault> {
        self.needed(HeaderName::From)
    }

    /// Reads To, which has to be there.
    ///
    /// # Errors
    /// See above.
    pub fn to(&self) -> Result<NameAddr, HeaderFault> {
        self.needed(HeaderName::To)
    }

    /// Reads Call-ID, which has to be there.
    ///
    /// # Errors
    /// See above.
    pub fn call_id(&self) -> Result<CallId, HeaderFault> {
        self.needed(HeaderName::CallId)
    }

    /// Reads CSeq, which has to be there.
    ///
    /// # Errors
    /// See above.
    pub fn cseq(&self) -> Result<CSeq, HeaderFault> {
        self.needed(HeaderName::CSeq)
    }

    /// Reads Max-Forwards.
    ///
    /// # Errors
    /// See above.
    pub fn max_forwards(&self) -> Result<Option<MaxForwards>, HeaderFault> {
        self.one(HeaderName::MaxForwards)
    }

    /// Reads Expires.
    ///
    /// # Errors
    /// See above.
    pub fn expires(&self) -> Result<Option<Seconds>, HeaderFault> {
        self.one(HeaderName::Expires)
    }

    /// Reads Min-Expires.
    ///
    /// # Errors
    /// See above.
    pub fn min_expires(&self) -> Result<Option<Seconds>, HeaderFault> {
        self.one(HeaderName::MinExpires)
    }

    /// Reads Event.
    ///
    /// # Errors
    /// See above.
    pub fn event(&self) -> Result<Option<Event>, HeaderFault> {
        self.one(HeaderName::Event)
    }

    /// Reads Subscription-State.
    ///
    /// # Errors
    /// See above.
    pub fn subscription_state(&self) -> Result<Option<SubscriptionState>, HeaderFault> {
        self.one(HeaderName::SubscriptionState)
    }

    /// Reads Contact.
    ///
    /// # Errors
    /// See above. Also when `*` stands beside another contact.
    pub fn contacts(&self) -> Result<Contacts, HeaderFault> {
        let mut values = self.raw(&HeaderName::Contact);
        if values.any(|value| value == "*") {
            let alone = self.raw(&HeaderName::Contact).count() == 1;
            return if alone {
                Ok(Contacts::All)
            } else {
                Err(HeaderFault::Repeated(HeaderName::Contact))
            };
        }
        let list: Vec<NameAddr> = self.list(HeaderName::Contact)?;
        for contact in &list {
            if let Err(fault) = contact.q().and(contact.expires()) {
                let name = HeaderName::Contact;
                return Err(HeaderFault::Syntax { name, fault });
            }
        }
        Ok(Contacts::List(list))
    }

    /// Reads Route, Record-Route, Path or Service-Route.
    ///
    /// # Errors
    /// See above.
    pub fn routes(&self, name: HeaderName) -> Result<Vec<NameAddr>, HeaderFault> {
        self.list(name)
    }

    /// Reads the words of Require, Proxy-Require, Supported, Unsupported or Allow.
    ///
    /// # Errors
    /// See above.
    pub fn words(&self, name: HeaderName) -> Result<Vec<String>, HeaderFault> {
        let words: Vec<Token> = self.list(name)?;
        Ok(words.into_iter().map(|Token(word)| word).collect())
    }
}

fn checked(name: &HeaderName, value: &impl fmt::Display) -> String {
    let value = value.to_string();
    assert!(is_field_text(&value), "{name}: {value:?}");
    value
}

const MAY_BE_EMPTY: [HeaderName; 3] =
    [HeaderName::Supported, HeaderName::Allow, HeaderName::Accept];
