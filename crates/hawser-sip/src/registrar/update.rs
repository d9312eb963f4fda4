//! Changes that one REGISTER makes.

use std::time::Duration;

use hawser_types::Instant;

use super::location::{Binding, LocationLimits, Origin};
use crate::fields::{CallId, Contacts, NameAddr, Q, Seconds};
use crate::message::{HeaderFault, HeaderName, Refusal, Request, StatusCode};

/// The changes that a REGISTER asks for.
#[derive(Debug)]
pub(super) struct Update {
    call_id: CallId,
    cseq: u32,
    path: Vec<NameAddr>,
    change: Change,
}

#[derive(Debug)]
enum Change {
    RemoveAll,
    Set(Vec<Wanted>),
}

#[derive(Debug)]
struct Wanted {
    contact: NameAddr,
    q: Q,
    /// Zero removes the binding.
    lifetime: Duration,
    outbound: Option<(String, u32)>,
}

impl Update {
    /// Reads a REGISTER; `None` for one that only asks for the bindings.
    pub(super) fn read(
        request: &Request,
        limits: &LocationLimits,
    ) -> Result<Option<Self>, Refusal> {
        let headers = &request.headers;
        let fault = |fault: HeaderFault| bad(fault.to_string());
        let expires = headers.expires().map_err(fault)?;
        let change = match headers.contacts().map_err(fault)? {
            Contacts::All if expires == Some(Seconds(0)) => Change::RemoveAll,
            Contacts::All => return Err(bad("Contact: * needs Expires: 0")),
            Contacts::List(list) if list.is_empty() => return Ok(None),
            Contacts::List(list) => {
                let wanted = list
                    .into_iter()
                    .map(|contact| Wanted::read(contact, expires, limits));
                Change::Set(wanted.collect::<Result<_, _>>()?)
            }
        };
        let call_id = headers.call_id().map_err(fault)?;
        short("Call-ID", call_id.as_str().len())?;
        let path = headers.routes(HeaderName::Path).map_err(fault)?;
        let length = path.iter().map(|hop| hop.to_string().len());
        short("Path", length.sum())?;
        Ok(Some(Self {
            call_id,
            cseq: headers.cseq().map_err(fault)?.number,
            path,
            change,
        }))
    }

    /// Returns the bindings after the changes.
    pub(super) fn apply(
        self,
        now: Instant,
        mut bindings: Vec<Binding>,
        origin: Origin,
    ) -> Result<Vec<Binding>, Refusal> {
        let is_late =
            |binding: &Binding| binding.call_id == self.call_id && binding.cseq >= self.cseq;
        let wanted = match self.change {
            Change::RemoveAll if bindings.iter().any(is_late) => return Err(late()),
            Change::RemoveAll => return Ok(Vec::new()),
            Change::Set(wanted) => wanted,
        };
        let mut changed: Vec<Binding> = Vec::new();
        for Wanted {
            contact,
            q,
            lifetime,
            outbound,
        } in wanted
        {
            let binding = Binding {
                contact,
                q,
                expires: now + lifetime,
                updated: now,
                call_id: self.call_id.clone(),
                cseq: self.cseq,
                path: self.path.clone(),
                outbound,
                origin,
            };
            if changed.iter().any(|other| other.is_same(&binding)) {
                return Err(bad("a contact stands there twice"));
            }
            let same = bindings.iter().position(|other| other.is_same(&binding));
            if let Some(place) = same {
                if is_late(&bindings[place]) {
                    return Err(late());
                }
                bindings.remove(place);
            }
            changed.push(binding);
        }
        bindings.extend(changed.into_iter().filter(|binding| binding.expires > now));
        Ok(bindings)
    }
}

impl Wanted {
    fn read(
        mut contact: NameAddr,
        expires: Option<Seconds>,
        limits: &LocationLimits,
    ) -> Result<Self, Refusal> {
        if contact.uri.as_sip().is_none_or(|uri| uri.has_headers()) {
            return Err(bad("a contact must be a sip or sips URI without headers"));
        }
        let bad_value = |fault: crate::SyntaxFault| bad(format!("Contact: {fault}"));
        let q = contact.q().map_err(bad_value)?.unwrap_or(Q::ONE);
        let own = contact.expires().map_err(bad_value)?;
        let asked = own.or(expires).map(Seconds::duration);
        let lifetime = match asked {
            None => limits.default_expires,
            Some(asked) if asked.is_zero() => asked,
            Some(asked) if asked < limits.min_expires => {
                let status = StatusCode::INTERVAL_TOO_BRIEF;
                let mut refusal = Refusal::new(status, status.reason());
                let least = limits.min_expires.as_secs().to_string();
                refusal.header = Some((HeaderName::MinExpires, least));
                return Err(refusal);
            }
            Some(asked) => asked.min(limits.max_expires),
        };
        let outbound = outbound(&contact)?;
        contact.params.remove("q");
        contact.params.remove("expires");
        short("a contact", contact.to_string().len())?;
        Ok(Self {
            contact,
            q,
            lifetime,
            outbound,
        })
    }
}

/// Reads `+sip.instance` and `reg-id`, which are valid only together (RFC 5626 §6).
fn outbound(contact: &NameAddr) -> Result<Option<(String, u32)>, Refusal> {
    let (Some(instance), Some(reg_id)) = (
        contact.params.value("+sip.instance"),
        contact.params.value("reg-id"),
    ) else {
        return Ok(None);
    };
    let number: Option<u32> = reg_id.parse().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| bad("Contact: reg-id is a whole number above 0"))?;
    Ok(Some((instance.to_owned(), number)))
}

/// Refuses a text that is longer than a row of the table.
fn short(what: &str, length: usize) -> Result<(), Refusal> {
    if length <= MAX_LENGTH {
        Ok(())
    } else {
        Err(bad(format!(
            "{what} has {length} bytes, at most {MAX_LENGTH} are allowed"
        )))
    }
}

fn bad(reason: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, reason)
}

fn late() -> Refusal {
    bad("CSeq is not above that of an earlier request")
}

/// Limit of bytes of a contact, its path or its Call-ID, which are stored for each binding.
const MAX_LENGTH: usize = 512;
