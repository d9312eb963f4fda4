//! HTTP/1 as bytes: parsers and writers for a proxy (RFC 9110, RFC 9112).

mod body;
mod fields;
mod head;
mod request;
mod response;

pub use body::{Body, Framing, Run};
pub use head::{HeadScanner, MAX_HEAD_LENGTH, Version};
pub use request::{RequestHead, Target, parse_request};
pub use response::{ResponseHead, parse_response};
