//! Dialogs: the state that two user agents share (RFC 3261 §12).

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::fields::{CSeq, CallId, Contacts, MaxForwards, NameAddr, Via};
use crate::message::{Essentials, HeaderFault, HeaderName, Method, Request, Response, StatusCode};
use crate::uri::Uri;

/// One end of a dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    call_id: CallId,
    local: NameAddr,
    remote: NameAddr,
    /// Final target of requests: the far end's latest Contact.
    target: Uri,
    /// Route set to the target.
    routes: Vec<NameAddr>,
    local_number: u32,
    remote_number: Option<u32>,
}

/// Why there is no dialog, or a request does not belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DialogFault {
    /// A header field can't be read.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// The message must have exactly one Contact.
    #[error("one Contact is needed, {0} are there")]
    Contacts(usize),
    /// A tag is missing.
    #[error("the tag of {0} is missing")]
    Tag(HeaderName),
    /// The request is older than one that was received (RFC 3261 §12.2.2).
    #[error("CSeq {got} is not above {last}")]
    Order {
        /// The request's number.
        got: u32,
        /// The latest number before.
        last: u32,
    },
}

impl DialogFault {
    /// Returns the status for the answer to a request with this fault.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Order { .. } => StatusCode::INTERNAL_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl Dialog {
    /// Creates the dialog of the client from its request and the response (RFC 3261 §12.1.2).
    ///
    /// # Errors
    /// When the answer lacks what a dialog needs.
    pub fn of_client(request: &Request, response: &Response) -> Result<Self, DialogFault> {
        let asked = request.essentials()?;
        let answered = response.essentials()?;
        if answered.to.tag().is_none_or(str::is_empty) {
            return Err(DialogFault::Tag(HeaderName::To));
        }
        let mut routes = response.headers.routes(HeaderName::RecordRoute)?;
        routes.reverse();
        Ok(Self {
            call_id: asked.call_id,
            local: asked.from,
            remote: answered.to,
            target: contact(&response.headers)?,
            routes,
            local_number: asked.cseq.number,
            remote_number: None,
        })
    }

    /// Creates the dialog of the server, which answers with `tag` in To (RFC 3261 §12.1.1).
    ///
    /// # Errors
    /// When the request lacks what a dialog needs.
    pub fn of_server(request: &Request, tag: &str) -> Result<Self, DialogFault> {
        let asked = request.essentials()?;
        let mut local = asked.to;
        local.params.set("tag", tag);
        Ok(Self {
            call_id: asked.call_id,
            local,
            remote: asked.from,
            target: contact(&request.headers)?,
            routes: request.headers.routes(HeaderName::RecordRoute)?,
            local_number: 0,
            remote_number: Some(asked.cseq.number),
        })
    }

    /// Creates the dialog with another server that accepted the same INVITE (RFC 3261 §13.2.2.4);
    /// `None` if its answer lacks what a dialog needs.
    #[must_use]
    pub fn forked(&self, response: &Response) -> Option<Self> {
        let remote = response.headers.to().ok()?;
        let mut routes = response.headers.routes(HeaderName::RecordRoute).ok()?;
        routes.reverse();
        remote.tag()?;
        Some(Self {
            remote,
            target: contact(&response.headers).ok()?,
            routes,
            remote_number: None,
            ..self.clone()
        })
    }

    /// Whether a received request belongs to this dialog.
    #[must_use]
    pub fn is_of(&self, essentials: &Essentials) -> bool {
        self.call_id == essentials.call_id
            && self.local.tag() == essentials.to.tag()
            && self.remote.tag() == essentials.from.tag()
    }

    /// Returns the identity of this end, with its tag.
    #[must_use]
    pub fn local(&self) -> &NameAddr {
        &self.local
    }

    /// Returns the identity of the far end.
    #[must_use]
    pub fn remote(&self) -> &NameAddr {
        &self.remote
    }

    /// Returns the next hop of requests: the first route, else the target (RFC 3261 §12.2.1.1).
    #[must_use]
    pub fn next_hop(&self) -> &Uri {
        self.routes.first().map_or(&self.target, |route| &route.uri)
    }

    /// Handles a request of the far end within the dialog. An ACK has the number of its INVITE.
    ///
    /// # Errors
    /// When the request is older than an earlier one, or its Contact can't be read.
    pub fn handle_request(&mut self, request: &Request) -> Result<(), DialogFault> {
        let got = request.headers.cseq()?.number;
        if request.method == Method::Ack {
            return Ok(());
        }
        if let Some(last) = self.remote_number.filter(|last| got <= *last) {
            return Err(DialogFault::Order { got, last });
        }
        self.remote_number = Some(got);
        self.refresh(&request.method, &request.headers)
    }

    /// Handles a 2xx to a request of this end within the dialog.
    ///
    /// # Errors
    /// When its Contact can't be read.
    pub fn handle_success(
        &mut self,
        method: &Method,
        answer: &Response,
    ) -> Result<(), DialogFault> {
        self.refresh(method, &answer.headers)
    }

    /// Returns a new request within the dialog, and its number.
    #[must_use]
    pub fn request(&mut self, method: Method, via: &Via) -> Request {
        // A dialog never sends 2^31 requests.
        self.local_number = self.local_number.saturating_add(1);
        self.numbered(method, via, self.local_number)
    }

    /// Returns the ACK for a 2xx to the INVITE of this number (RFC 3261 §13.2.2.4).
    #[must_use]
    pub fn ack(&self, number: u32, via: &Via) -> Request {
        self.numbered(Method::Ack, via, number)
    }

    /// Returns the number of this end's latest request.
    #[must_use]
    pub fn local_number(&self) -> u32 {
        self.local_number
    }

    fn numbered(&self, method: Method, via: &Via, number: u32) -> Request {
        let (target, routes) = self.way();
        let mut request = Request::new(method.clone(), target);
        let headers = &mut request.headers;
        headers.push(HeaderName::Via, via);
        for route in routes {
            headers.push(HeaderName::Route, route);
        }
        headers.push(HeaderName::MaxForwards, MaxForwards(70));
        headers.push(HeaderName::From, &self.local);
        headers.push(HeaderName::To, &self.remote);
        headers.push(HeaderName::CallId, &self.call_id);
        headers.push(HeaderName::CSeq, CSeq { number, method });
        request
    }

    /// Returns the URI and the routes of a request (RFC 3261 §12.2.1.1). A first hop without `lr`
    /// predates RFC 3261 and takes its own URI as the request's.
    fn way(&self) -> (Uri, Vec<NameAddr>) {
        let Some((first, others)) = self.routes.split_first() else {
            return (self.target.clone(), Vec::new());
        };
        let is_loose = first
            .uri
            .as_sip()
            .is_none_or(|uri| uri.param("lr").is_some());
        if is_loose {
            return (self.target.clone(), self.routes.clone());
        }
        let last = NameAddr::new(self.target.clone());
        let routes = others.iter().cloned().chain([last]);
        (first.uri.clone(), routes.collect())
    }

    /// Refreshes the target: these methods carry the far end's current Contact (RFC 3261 §12.2, RFC
    /// 3311 §5, RFC 6665 §4.4.1).
    fn refresh(
        &mut self,
        method: &Method,
        headers: &crate::message::Headers,
    ) -> Result<(), DialogFault> {
        let may_refresh = [
            Method::Invite,
            Method::Update,
            Method::Subscribe,
            Method::Notify,
        ];
        if !may_refresh.contains(method) || !headers.contains(&HeaderName::Contact) {
            return Ok(());
        }
        self.target = contact(headers)?;
        Ok(())
    }
}

/// Returns the single Contact of a message that creates a dialog.
fn contact(headers: &crate::message::Headers) -> Result<Uri, DialogFault> {
    match headers.contacts()? {
        Contacts::List(list) => match <[NameAddr; 1]>::try_from(list) {
            Ok([contact]) if contact.uri.as_sip().is_some() => Ok(contact.uri),
            Ok(_) => Err(DialogFault::Contacts(0)),
            Err(list) => Err(DialogFault::Contacts(list.len())),
        },
        Contacts::All => Err(DialogFault::Contacts(0)),
    }
}
