//! A request to forward to one target.

use std::sync::Arc;

use crate::fields::{NameAddr, Via};
use crate::message::{HeaderName, Request};
use crate::registrar::{Binding, Origin};
use crate::uri::Uri;

/// A request to forward to one target. All targets of a request share one copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    common: Arc<Common>,
    target: Option<Target>,
    /// Next hop.
    pub next_hop: Uri,
    /// Origin of the next hop's registration.
    pub origin: Origin,
}

/// Parts of a request that all targets share.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Common {
    /// The received request, without this proxy's Route.
    pub(super) request: Request,
    /// Loop mark of this proxy for the request.
    pub(super) mark: String,
    /// Record-Route entry of this proxy, if the request creates a dialog.
    pub(super) record: Option<NameAddr>,
}

/// A registered contact.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    contact: Uri,
    path: Vec<NameAddr>,
}

impl Forward {
    /// Forwards the request unchanged to its next hop, which registered from `origin`.
    pub(super) fn onward(common: Arc<Common>, origin: Origin) -> Self {
        let next_hop = first_hop(&common.request);
        Self {
            common,
            target: None,
            next_hop,
            origin,
        }
    }

    /// Forwards the request to a registered contact, along its registered path (RFC 3327 §5.3).
    pub(super) fn to_binding(common: &Arc<Common>, binding: &Binding) -> Self {
        let (contact, path) = (binding.contact.uri.clone(), binding.path.clone());
        let first = path.first().map(|hop| hop.uri.clone());
        Self {
            common: Arc::clone(common),
            next_hop: first.unwrap_or_else(|| contact.clone()),
            origin: binding.way_back(),
            target: Some(Target { contact, path }),
        }
    }

    /// Returns the request with the Via of this proxy; `unique` is a token that was not used
    /// before.
    #[must_use]
    pub fn to_request(&self, mut via: Via, unique: &str) -> Request {
        let Common {
            request,
            mark,
            record,
        } = &*self.common;
        let mut request = request.clone();
        if let Some(target) = &self.target {
            request.uri = target.contact.clone();
            for hop in target.path.iter().rev() {
                request.headers.push_front(HeaderName::Route, hop);
            }
        }
        if let Some(own) = record {
            request.headers.push_front(HeaderName::RecordRoute, own);
        }
        via.params.set("branch", &format!("z9hG4bK{unique}.{mark}"));
        request.headers.push_front(HeaderName::Via, via);
        request
    }
}

/// Returns the next hop of an unchanged request: its first Route, else its URI.
pub(crate) fn first_hop(request: &Request) -> Uri {
    let routes = request.headers.routes(HeaderName::Route);
    let first = routes.unwrap_or_default().into_iter().next();
    first.map_or_else(|| request.uri.clone(), |route| route.uri)
}
