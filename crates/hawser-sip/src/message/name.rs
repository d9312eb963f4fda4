//! Names of header fields, which are compared without regard to case, and their short forms (RFC
//! 3261 §7.3.3).

use std::fmt;
use std::mem;

macro_rules! names {
    ($($name:ident = $text:literal $($short:literal)?),* $(,)?) => {
        /// The name of a header field.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each is named as it is written")]
        #[non_exhaustive]
        pub enum HeaderName {
            $($name,)*
            /// An unknown name: a token, compared without regard to case.
            Other(String),
        }

        impl HeaderName {
            /// Returns the name with this full or short spelling.
            pub(crate) fn named(name: &str) -> Self {
                $(
                    if name.eq_ignore_ascii_case($text) $(|| name.eq_ignore_ascii_case($short))? {
                        return Self::$name;
                    }
                )*
                Self::Other(name.to_owned())
            }

            /// Returns the full name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(name) => name,
                }
            }
        }
    };
}

names! {
    Accept = "Accept",
    Allow = "Allow",
    AllowEvents = "Allow-Events" "u",
    Authorization = "Authorization",
    CallId = "Call-ID" "i",
    Contact = "Contact" "m",
    ContentEncoding = "Content-Encoding" "e",
    ContentLength = "Content-Length" "l",
    ContentType = "Content-Type" "c",
    CSeq = "CSeq",
    Date = "Date",
    Event = "Event" "o",
    Expires = "Expires",
    From = "From" "f",
    MaxForwards = "Max-Forwards",
    MinExpires = "Min-Expires",
    Path = "Path",
    ProxyAuthenticate = "Proxy-Authenticate",
    ProxyAuthorization = "Proxy-Authorization",
    ProxyRequire = "Proxy-Require",
    RecordRoute = "Record-Route",
    Require = "Require",
    RetryAfter = "Retry-After",
    Route = "Route",
    Server = "Server",
    ServiceRoute = "Service-Route",
    Subject = "Subject" "s",
    SubscriptionState = "Subscription-State",
    Supported = "Supported" "k",
    To = "To" "t",
    Unsupported = "Unsupported",
    UserAgent = "User-Agent",
    Via = "Via" "v",
    WwwAuthenticate = "WWW-Authenticate",
}

impl PartialEq for HeaderName {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Other(_), _) | (_, Self::Other(_)) => {
                self.as_str().eq_ignore_ascii_case(other.as_str())
            }
            _ => mem::discriminant(self) == mem::discriminant(other),
        }
    }
}

impl Eq for HeaderName {}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_full_and_short_in_any_case() {
        for (text, name) in [
            ("via", HeaderName::Via),
            ("V", HeaderName::Via),
            ("CALL-id", HeaderName::CallId),
            ("i", HeaderName::CallId),
            ("l", HeaderName::ContentLength),
            ("www-authenticate", HeaderName::WwwAuthenticate),
        ] {
            let read = HeaderName::named(text);
            assert!(!matches!(read, HeaderName::Other(_)), "{text}");
            assert_eq!(read, name);
        }
        let other = HeaderName::named("X-Mine");
        assert_eq!(other, HeaderName::named("x-mine"));
        assert_eq!(other.as_str(), "X-Mine");
    }
}
