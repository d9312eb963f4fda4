//! A registrar: handles REGISTER, and stores the bindings (RFC 3261 §10.3, RFC 3327, RFC 5626).

mod admission;
mod kept;
mod location;
#[cfg(test)]
mod tests;
mod update;

use std::net::IpAddr;

use hawser_types::{Host, Instant};

use crate::digest::{Algorithm, AuthFault, Credentials, Secret, Verifier};
use crate::message::{Essentials, HeaderName, Method, Refusal, Request, Response, StatusCode};
use crate::uri::SipUri;
pub use admission::{Admission, AdmissionLimits};
pub(crate) use admission::{Allowance, sender};
pub use kept::{KeptBinding, Moment};
pub use location::{Binding, Location, LocationLimits, Origin};
use update::Update;

/// Users and their permissions, from a table of the owner.
pub trait Users {
    /// Returns the secret of a user in the registrar's realm.
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret>;

    /// Whether a user may change the bindings of an address of record, such as
    /// `sip:alice@example.org`.
    fn may_register(&self, username: &str, address_of_record: &str) -> bool;

    /// Whether a user may watch the bindings of an address of record.
    fn may_watch(&self, username: &str, address_of_record: &str) -> bool {
        self.may_register(username, address_of_record)
    }
}

/// A registrar for some domains.
///
/// It owns the table of locations and answers one request at a time. Retransmissions are absorbed
/// by [`crate::transaction::Transactions`].
#[derive(Debug)]
pub struct Registrar {
    domains: Vec<Host>,
    verifier: Verifier,
    location: Location,
    tag: String,
}

impl Registrar {
    /// Creates a registrar without bindings. `tag` is the tag of its responses, a token.
    #[must_use]
    pub fn new(domains: Vec<Host>, verifier: Verifier, limits: LocationLimits, tag: &str) -> Self {
        Self {
            domains,
            verifier,
            location: Location::new(limits),
            tag: tag.to_owned(),
        }
    }

    /// Returns the table of locations.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the table of locations, to drain its changes and expiry.
    pub fn location_mut(&mut self) -> &mut Location {
        &mut self.location
    }

    /// Answers a REGISTER from `source`.
    pub fn handle_register(
        &mut self,
        now: Instant,
        source: IpAddr,
        request: &Request,
        users: &dyn Users,
    ) -> Response {
        let essentials = match request.essentials() {
            Ok(essentials) => essentials,
            Err(fault) => return Refusal::unreadable(&fault).answer(request, &self.tag),
        };
        match self.admit(now, source, (request, &essentials), users) {
            Ok(registrant) => {
                let origin = Origin {
                    address: Some(source.to_canonical()),
                    stream: None,
                };
                self.register(now, request, &registrant, origin)
            }
            Err(answer) => answer,
        }
    }

    /// Returns the address of record whose bindings a REGISTER from `source` may change.
    ///
    /// Each proof counts once, and only its count is stored: clients without a password leave no
    /// state. Retransmissions must not be passed.
    ///
    /// # Errors
    /// The response that refuses the request or asks for a proof.
    pub fn admit(
        &mut self,
        now: Instant,
        source: IpAddr,
        (request, essentials): (&Request, &Essentials),
        users: &dyn Users,
    ) -> Result<Registrant, Response> {
        let outcome = self.check(now, source, (request, essentials), users);
        outcome.map_err(|denial| self.deny(now, source, request, denial))
    }

    /// Returns the user who proved a password for another request, such as a SUBSCRIBE.
    ///
    /// # Errors
    /// The response that asks for a proof.
    pub fn authenticate(
        &mut self,
        now: Instant,
        source: IpAddr,
        request: &Request,
        users: &dyn Users,
    ) -> Result<String, Response> {
        let outcome = self.user(now, source, request, users);
        outcome.map_err(|denial| self.deny(now, source, request, denial))
    }

    /// Answers an admitted REGISTER from `origin`.
    pub fn register(
        &mut self,
        now: Instant,
        request: &Request,
        registrant: &Registrant,
        origin: Origin,
    ) -> Response {
        let outcome = self.update(now, request, &registrant.0, origin);
        outcome.unwrap_or_else(|refusal| refusal.answer(request, &self.tag))
    }

    fn deny(
        &mut self,
        now: Instant,
        source: IpAddr,
        request: &Request,
        denial: Denial,
    ) -> Response {
        let is_stale = match denial {
            Denial::Refusal(refusal) => return refusal.answer(request, &self.tag),
            Denial::Challenge { is_stale } => is_stale,
        };
        let mut answer = Response::new(request, StatusCode::UNAUTHORIZED, Some(&self.tag));
        for challenge in self.verifier.challenges(now, &context(source), is_stale) {
            answer.headers.push(HeaderName::WwwAuthenticate, challenge);
        }
        answer
    }

    /// Returns the address of record that the request may change (RFC 3261 §10.3, steps 1 to 5).
    fn check(
        &mut self,
        now: Instant,
        source: IpAddr,
        (request, essentials): (&Request, &Essentials),
        users: &dyn Users,
    ) -> Result<Registrant, Denial> {
        if let Some(refusal) = request.refusal_of_readable(&[Method::Register], &EXTENSIONS) {
            return Err(refusal.into());
        }
        let is_ours = |uri: &SipUri| self.domains.contains(&uri.host.to_canonical());
        let target = request.uri.as_sip().filter(|uri| is_ours(uri));
        let to = essentials.to.uri.as_sip();
        let address = to
            .filter(|uri| is_ours(uri))
            .and_then(SipUri::address_of_record);
        let (Some(_), Some(address)) = (target, address) else {
            let status = StatusCode::NOT_FOUND;
            return Err(Refusal::new(status, "the domain is not served here").into());
        };
        let username = self.user(now, source, request, users)?;
        if users.may_register(&username, &address) {
            Ok(Registrant(address))
        } else {
            let status = StatusCode::FORBIDDEN;
            Err(Refusal::new(status, status.reason()).into())
        }
    }

    /// Returns the user whose proof is correct.
    fn user(
        &mut self,
        now: Instant,
        source: IpAddr,
        request: &Request,
        users: &dyn Users,
    ) -> Result<String, Denial> {
        let mut denial = Denial::Challenge { is_stale: false };
        let values = request.headers.raw(&HeaderName::Authorization);
        // The request may also have credentials for other realms and schemes.
        let realm = self.verifier.realm();
        let ours: Vec<_> = values
            .take(MAX_CREDENTIALS)
            .filter_map(|value| Credentials::parse(value).ok())
            .filter(|credentials| credentials.realm == realm)
            .collect();
        for credentials in ours {
            let algorithm = credentials.algorithm;
            let known = users.secret(&credentials.username, algorithm);
            // Refusing an unknown user takes as long as refusing a wrong password.
            let dummy = Secret::new(algorithm, "", "", "");
            let secret = known.as_ref().unwrap_or(&dummy);
            let asked = (&request.method, &request.uri);
            let context = context(source);
            match self
                .verifier
                .verify(now, &context, &credentials, secret, asked)
            {
                Ok(()) if known.is_some() => return Ok(credentials.username),
                Err(AuthFault::Stale) if known.is_some() => {
                    denial = Denial::Challenge { is_stale: true };
                }
                _ => {}
            }
        }
        Err(denial)
    }

    /// Applies all changes of the bindings or none, and answers with the current ones (RFC 3261
    /// §10.3, steps 6 to 8).
    fn update(
        &mut self,
        now: Instant,
        request: &Request,
        address: &str,
        origin: Origin,
    ) -> Result<Response, Refusal> {
        let update = Update::read(request, self.location.limits())?;
        if let Some(update) = update {
            let bindings = self.location.bindings(now, address);
            let bindings = update.apply(now, bindings, origin)?;
            self.location.set(now, address, bindings)?;
        }
        let mut answer = Response::new(request, StatusCode::OK, Some(&self.tag));
        for binding in self.location.lookup(now, address) {
            answer
                .headers
                .push(HeaderName::Contact, binding.to_contact(now));
        }
        for path in request.headers.raw(&HeaderName::Path) {
            answer.headers.push(HeaderName::Path, path);
        }
        answer
            .headers
            .push(HeaderName::Supported, EXTENSIONS.join(", "));
        Ok(answer)
    }
}

/// Address of record of an admitted REGISTER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant(String);

/// Reason to refuse a request.
#[derive(Debug)]
enum Denial {
    Refusal(Refusal),
    Challenge { is_stale: bool },
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// Returns the address to which nonces are bound: an overheard proof is useless from elsewhere.
fn context(source: IpAddr) -> Vec<u8> {
    match source.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Extensions that the registrar supports.
const EXTENSIONS: [&str; 2] = ["path", "outbound"];

/// Limit of credentials checked in one request.
const MAX_CREDENTIALS: usize = 4;
