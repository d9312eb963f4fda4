//! Reasons why a daemon refuses a change.

use std::path::PathBuf;

use hawser_config::{ConfigError, UnknownTransport};
use hawser_control::ErrorReason;
use hawser_policy::UnknownProfile;
use hawser_sched::connection::UnknownGatewayUse;
use hawser_sched::{chunk, connection, packet};

use crate::rule_files::edit::RulesChanged;
use crate::setup::{explained, is_usage};

/// File in which a change was saved, `None` if it was not to be saved, or the reason why the change
/// was refused.
pub(crate) type Changed = Result<Option<PathBuf>, Refused>;

/// Reason why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The request contains no change.
    #[error("the request contains nothing to change")]
    Nothing,
    /// Neither this machine nor the configuration has a link with this name.
    #[error("no link is called {name}; there are {known}")]
    UnknownLink {
        /// The name that was given.
        name: String,
        /// The known names.
        known: String,
    },
    /// A value that is not allowed.
    #[error("`{key}` is {got}; allowed: {allowed}")]
    Value {
        /// The key as in the configuration.
        key: String,
        /// The value that was given.
        got: String,
        /// The allowed values.
        allowed: String,
    },
    /// The value is not valid in a configuration.
    #[error(transparent)]
    Config(ConfigError),
    /// No policy for chunks has this name.
    #[error(transparent)]
    Scheduler(#[from] chunk::UnknownPolicy),
    /// No policy for connections has this name.
    #[error(transparent)]
    ConnectionScheduler(#[from] connection::UnknownPolicy),
    /// No policy for packets has this name.
    #[error(transparent)]
    PacketScheduler(#[from] packet::UnknownPacketPolicy),
    /// No transport has this name.
    #[error(transparent)]
    TransportChoice(#[from] UnknownTransport),
    /// No use of a gateway has this name.
    #[error(transparent)]
    GatewayUse(#[from] UnknownGatewayUse),
    /// No set of rules has this name.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// The daemon uses no gateway.
    #[error("the daemon uses no gateway; `hawser up --gateway URL` enrols with one")]
    NoGateway,
    /// The text is not exactly one rule.
    #[error("one rule is expected, not {0}")]
    Rules(usize),
    /// The rule is too long: every rule is shown in full.
    #[error("the rule has {0} bytes; allowed: {MAX_RULE}")]
    TooLong(usize),
    /// There are too many rules: they need memory, also in the kernel.
    #[error("{0} rules that end with the daemon exist already, and no more are allowed")]
    TooManyRules(usize),
    /// No rule that ends with the daemon has this number.
    #[error("there is no rule {number} that ends with the daemon; there are {count} such rules")]
    UnknownRule {
        /// The number that was given.
        number: u64,
        /// Number of rules that end with the daemon.
        count: usize,
    },
    /// Another rule has this number by now.
    #[error(transparent)]
    RulesChanged(#[from] RulesChanged),
    /// The change can't be saved.
    #[error("the change can't be saved: {}", explained(.0))]
    Unsaved(anyhow::Error),
    /// The change was saved, but can't be put in force.
    #[error(
        "the change is saved to {}, but the rules in force stay as they were: {error}",
        path.display()
    )]
    Unread {
        /// The file.
        path: PathBuf,
        /// Error of reading the rules again.
        error: Box<ConfigError>,
    },
    /// The request does not ask for a change.
    #[error("this request does not ask for a change")]
    Unsupported,
}

impl Refused {
    /// Returns the kind of the error, for programs.
    pub(crate) fn reason(&self) -> ErrorReason {
        match self {
            Self::UnknownLink { .. } | Self::UnknownRule { .. } | Self::RulesChanged(_) => {
                ErrorReason::NotFound
            }
            Self::NoGateway | Self::Unsupported => ErrorReason::Unsupported,
            Self::Unsaved(error) if !is_usage(error) => ErrorReason::Failed,
            Self::Unread { .. } => ErrorReason::Failed,
            _ => ErrorReason::Invalid,
        }
    }

    /// Returns the refusal of a change that could not be written to a file.
    pub(crate) fn by_writing(error: anyhow::Error) -> Self {
        error
            .downcast()
            .map_or_else(Self::Unsaved, Self::RulesChanged)
    }
}

/// Longest rule in bytes of text: one answer has room for the allowed number of rules that end with
/// the daemon, each of this length.
pub(crate) const MAX_RULE: usize = 3_000;
