//! Messages as bytes.

use bytes::{BufMut, Bytes, BytesMut};

use super::{HeaderName, Headers, Message, Request, Response};

impl Message {
    /// Serializes the message, with the Content-Length of its body.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Request(request) => request.to_bytes(),
            Self::Response(response) => response.to_bytes(),
        }
    }
}

impl Request {
    /// Serializes the request, with the Content-Length of its body.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let first = format!("{} {} SIP/2.0", self.method, self.uri);
        write(&first, &self.headers, &self.body)
    }
}

impl Response {
    /// Serializes the response, with the Content-Length of its body.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let first = format!("SIP/2.0 {} {}", self.status, self.reason);
        write(&first, &self.headers, &self.body)
    }
}

fn write(first: &str, headers: &Headers, body: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(512 + body.len());
    out.put_slice(first.as_bytes());
    out.put_slice(b"\r\n");
    let others = headers
        .iter()
        .filter(|(name, _)| **name != HeaderName::ContentLength);
    for (name, value) in others {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    let length = format!("{}: {}\r\n\r\n", HeaderName::ContentLength, body.len());
    out.put_slice(length.as_bytes());
    out.put_slice(body);
    out.freeze()
}
