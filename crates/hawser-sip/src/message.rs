//! Requests and answers (RFC 3261 §7).

mod build;
mod check;
mod headers;
mod name;
mod read;
mod status;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torture;
mod write;

use bytes::Bytes;

pub use crate::method::Method;
pub use check::{Essentials, Refusal};
pub use headers::{HeaderFault, Headers};
pub use name::HeaderName;
pub use read::{Datagram, Fault, Limits, Malformed, StartLineFault, read_datagram};
pub(crate) use read::{Glance, Scan, glance, scan};
pub use status::StatusCode;

use crate::uri::Uri;

/// A message: a request or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request.
    Request(Request),
    /// An answer to one.
    Response(Response),
}

/// A request, such as REGISTER.
///
/// Its lines are well-formed; the values of header fields are parsed on access.
/// [`Request::essentials`] reads the mandatory ones, and checks all that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Request-URI: the called user or host.
    pub uri: Uri,
    /// Header fields, in their order.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: StatusCode,
    reason: String,
    /// Header fields, in their order.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
}

impl Message {
    /// Returns the header fields.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        match self {
            Self::Request(request) => &request.headers,
            Self::Response(response) => &response.headers,
        }
    }
}

impl From<Request> for Message {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Response> for Message {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}
