//! Methods. They are compared case-sensitively (RFC 3261 §7.1).

use std::fmt;

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// The method of a request.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $($(#[$doc])* $name,)*
            /// An unknown method: a token.
            Other(String),
        }

        impl Method {
            /// Returns the method of this name.
            pub(crate) fn named(name: &str) -> Self {
                match name {
                    $($text => Self::$name,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            /// Returns the name.
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

methods! {
    /// Opens a session (RFC 3261 §13).
    Invite = "INVITE",
    /// Confirms the final answer to an INVITE (RFC 3261 §17.1.1.3).
    Ack = "ACK",
    /// Ends a session (RFC 3261 §15).
    Bye = "BYE",
    /// Cancels a request (RFC 3261 §9).
    Cancel = "CANCEL",
    /// Binds addresses to a name (RFC 3261 §10).
    Register = "REGISTER",
    /// Asks for the far end's capabilities (RFC 3261 §11).
    Options = "OPTIONS",
    /// Changes a session (RFC 3311).
    Update = "UPDATE",
    /// Subscribes to notifications of changes (RFC 6665).
    Subscribe = "SUBSCRIBE",
    /// Notifies of a change (RFC 6665).
    Notify = "NOTIFY",
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
