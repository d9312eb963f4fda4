//! Status codes (RFC 3261 §21).

use std::fmt;

/// Status code of a response: 100 to 699.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusCode(u16);

macro_rules! codes {
    ($($name:ident = $code:literal $reason:literal),* $(,)?) => {
        impl StatusCode {
            $(
                #[doc = concat!("`", $code, " ", $reason, "`.")]
                pub const $name: Self = Self($code);
            )*

            /// Returns the reason phrase of RFC 3261 §21; empty for an unknown code.
            #[must_use]
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

codes! {
    TRYING = 100 "Trying",
    RINGING = 180 "Ringing",
    OK = 200 "OK",
    MOVED_TEMPORARILY = 302 "Moved Temporarily",
    BAD_REQUEST = 400 "Bad Request",
    UNAUTHORIZED = 401 "Unauthorized",
    FORBIDDEN = 403 "Forbidden",
    NOT_FOUND = 404 "Not Found",
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed",
    NOT_ACCEPTABLE = 406 "Not Acceptable",
    PROXY_AUTHENTICATION_REQUIRED = 407 "Proxy Authentication Required",
    REQUEST_TIMEOUT = 408 "Request Timeout",
    REQUEST_ENTITY_TOO_LARGE = 413 "Request Entity Too Large",
    UNSUPPORTED_MEDIA_TYPE = 415 "Unsupported Media Type",
    UNSUPPORTED_URI_SCHEME = 416 "Unsupported URI Scheme",
    BAD_EXTENSION = 420 "Bad Extension",
    INTERVAL_TOO_BRIEF = 423 "Interval Too Brief",
    TEMPORARILY_UNAVAILABLE = 480 "Temporarily Unavailable",
    NO_TRANSACTION = 481 "Call/Transaction Does Not Exist",
    LOOP_DETECTED = 482 "Loop Detected",
    TOO_MANY_HOPS = 483 "Too Many Hops",
    BUSY_HERE = 486 "Busy Here",
    REQUEST_TERMINATED = 487 "Request Terminated",
    NOT_ACCEPTABLE_HERE = 488 "Not Acceptable Here",
    BAD_EVENT = 489 "Bad Event",
    REQUEST_PENDING = 491 "Request Pending",
    INTERNAL_ERROR = 500 "Server Internal Error",
    NOT_IMPLEMENTED = 501 "Not Implemented",
    SERVICE_UNAVAILABLE = 503 "Service Unavailable",
    VERSION_NOT_SUPPORTED = 505 "Version Not Supported",
    MESSAGE_TOO_LARGE = 513 "Message Too Large",
    DECLINE = 603 "Decline",
}

impl StatusCode {
    /// Creates the status of this number, from 100 to 699.
    #[must_use]
    pub fn new(code: u16) -> Option<Self> {
        (100..700).contains(&code).then_some(Self(code))
    }

    /// Returns the number.
    #[must_use]
    pub fn as_u16(self) -> u16 {
        self.0
    }

    /// Whether more responses follow: 1xx.
    #[must_use]
    pub fn is_provisional(self) -> bool {
        self.0 < 200
    }

    /// Whether the request succeeded: 2xx.
    #[must_use]
    pub fn is_success(self) -> bool {
        self.0 / 100 == 2
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
