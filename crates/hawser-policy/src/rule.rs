use std::fmt;
use std::str::FromStr;

use hawser_sched::connection::Class;

use crate::Condition;

/// One rule: which connections it applies to, and what it says of them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rule {
    /// `name`: for people; rules need none.
    pub name: Option<String>,
    /// Where it stands.
    pub source: Source,
    /// Which connections it applies to.
    pub when: Condition,
    /// What it says of them.
    pub then: Action,
}

/// Where a rule stands; those of the first come before those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Source {
    /// Nowhere: it was said while the daemon runs, and ends with it.
    Session,
    /// In the user's configuration.
    #[default]
    User,
    /// In the chosen profile.
    Profile,
    /// In what Hawser brings along.
    BuiltIn,
}

/// What a rule says; of what is `None` it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Action {
    /// `class`: what kind of connection it is.
    pub class: Option<Class>,
    /// `links = "any"`, `only`, `order` or `never`: which links it may take.
    pub links: Option<LinkChoice>,
    /// `avoid`: which links it takes only if there is no other.
    pub avoid: Option<Vec<Avoid>>,
    /// `mode`: whether it is bonded.
    pub mode: Option<Mode>,
}

/// Which links a connection may take, by their names. A name that no link has stands for none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum LinkChoice {
    /// All of them.
    #[default]
    Any,
    /// These and no others.
    Only(Vec<String>),
    /// The first of these that lives, and no others.
    Order(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

/// Links that a connection takes only while no other is there for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Avoid {
    /// Those with a price or an allowance.
    Metered,
    /// Those that carry a real-time connection at the moment.
    Calls,
}

/// Whether a connection is bonded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// As it goes best.
    #[default]
    Auto,
    /// Over one link, straight to its destination.
    Direct,
    /// Over all links, by a peer or a gateway; over one link while there is neither.
    Bonded,
}

/// A set of rules that comes with Hawser, one of which is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Everything over every link. Has no rules of its own.
    #[default]
    Speed,
    /// What nobody waits for stays off links that carry calls.
    Calls,
    /// What nobody waits for stays off links that cost.
    Saver,
}

impl Action {
    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LinkChoice {
    /// The names in it.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Any => &[],
            Self::Only(names) | Self::Order(names) | Self::Except(names) => names,
        }
    }

    /// Whether the link called `name` may be taken at all.
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

/// Words for the values of a plain enum, read and shown.
macro_rules! words {
    ($type:ident, $error:ident, $what:literal: $($value:ident = $word:literal),+) => {
        impl $type {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The word for it in rules and reports.
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
        #[error("unknown {what} `{0}`: allowed are {allowed}", what = $what, allowed = [$($word),+].join(" "))]
        pub struct $error(String);
    };
}

words!(Mode, UnknownMode, "mode": Auto = "auto", Direct = "direct", Bonded = "bonded");
words!(Avoid, UnknownAvoid, "kind of link": Metered = "metered", Calls = "calls");
words!(Profile, UnknownProfile, "profile": Speed = "speed", Calls = "calls", Saver = "saver");
