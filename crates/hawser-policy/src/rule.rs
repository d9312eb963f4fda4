use std::fmt;
use std::str::FromStr;

use hawser_sched::connection::Class;

use crate::Condition;

/// A rule: a condition and an action.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rule {
    /// `name`: for display; optional.
    pub name: Option<String>,
    /// Origin of the rule.
    pub source: Source,
    /// Condition for connections.
    pub when: Condition,
    /// Action for matching connections.
    pub then: Action,
}

/// Origin of a rule, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Source {
    /// Set while the daemon runs, and lost with it.
    Session,
    /// The user's configuration.
    #[default]
    User,
    /// The chosen profile.
    Profile,
    /// Hawser's built-in rules.
    BuiltIn,
}

/// Action of a rule; `None` leaves a property unset.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Action {
    /// `class`: class of the connection.
    pub class: Option<Class>,
    /// `links = "any"`, `only`, `order` or `never`: links that it may use.
    pub links: Option<LinkChoice>,
    /// `avoid`: links that it uses only if there is no other.
    pub avoid: Option<Vec<Avoid>>,
    /// `mode`: bonding of the connection.
    pub mode: Option<Mode>,
}

/// Links that a connection may use, by name. An unknown name matches no link.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum LinkChoice {
    /// All of them.
    #[default]
    Any,
    /// These and no others.
    Only(Vec<String>),
    /// The first of these that works, and no others.
    Order(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

/// Links that a connection uses only while there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Avoid {
    /// Links with a price or an allowance.
    Metered,
    /// Links that carry a real-time connection at the moment.
    Calls,
}

/// Bonding of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Whichever suits better.
    #[default]
    Auto,
    /// Over one link, straight to its destination.
    Direct,
    /// Over all links, through a peer or a gateway; over one link while there is neither.
    Bonded,
    /// As packets over a gateway, so that TCP is the application's own from end to end. Where no
    /// packets are captured, as [`Self::Bonded`].
    Packet,
}

/// A set of rules that comes with Hawser; one of them is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// All connections over all links. It has no rules.
    #[default]
    Speed,
    /// Background traffic avoids links that carry calls.
    Calls,
    /// Background traffic avoids links that cost money.
    Saver,
}

impl Action {
    /// Tells whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LinkChoice {
    /// Returns the names in it.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Any => &[],
            Self::Only(names) | Self::Order(names) | Self::Except(names) => names,
        }
    }

    /// Tells whether the link called `name` may be used at all.
    pub fn allows(&self, name: &str) -> bool {
        let is_named = self.names().iter().any(|one| one == name);
        match self {
            Self::Any => true,
            Self::Only(_) | Self::Order(_) => is_named,
            Self::Except(_) => !is_named,
        }
    }
}

impl fmt::Display for LinkChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names().join(", ");
        match self {
            Self::Any => f.write_str("any link"),
            Self::Only(_) => write!(f, "only {names}"),
            Self::Order(_) => write!(f, "the first of {names}"),
            Self::Except(_) => write!(f, "never {names}"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Session => "session",
            Self::User => "user",
            Self::Profile => "profile",
            Self::BuiltIn => "built-in",
        })
    }
}

/// Names for the values of a plain enum, for parsing and display.
macro_rules! words {
    ($type:ident, $error:ident, $what:literal: $($value:ident = $word:literal),+) => {
        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns its name in rules and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $word),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, $error> {
                let mut all = Self::ALL.iter().copied();
                all.find(|one| one.name() == name)
                    .ok_or_else(|| $error(name.to_owned()))
            }
        }

        #[doc = concat!("No ", $what, " has this name.")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error(
            "unknown {what} `{0}`: allowed are {allowed}",
            what = $what,
            allowed = [$($word),+].join(" ")
        )]
        pub struct $error(String);
    };
}

words!(Mode, UnknownMode, "mode": Auto = "auto", Direct = "direct", Bonded = "bonded",
       Packet = "packet");
words!(Avoid, UnknownAvoid, "kind of link": Metered = "metered", Calls = "calls");
words!(Profile, UnknownProfile, "profile": Speed = "speed", Calls = "calls", Saver = "saver");
