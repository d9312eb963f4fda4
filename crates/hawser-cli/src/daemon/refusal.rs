//! Reasons why a daemon refuses a change.

use std::path::PathBuf;

use hawser_config::{ConfigError, UnknownTransport};
use hawser_control::ErrorReason;
use hawser_policy::UnknownProfile;
use hawser_sched::connection::UnknownGatewayUse;
use hawser_sched::{chunk, connection, packet};

use crate::rule_files::edit::RulesChanged;
use crate::setup::{explained, is_usage};

/// File in which a change was saved, if one was, or the reason why the change was refused.
pub(crate) type Changed = Result<Option<PathBuf>, Refused>;

/// Reason why a change was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The request says nothing.
    #[error("there is nothing in it to change")]
    Nothing,
    /// Neither this machine nor the configuration has such a link.
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
    /// A gateway can't be used so.
    #[error(transparent)]
    GatewayUse(#[from] UnknownGatewayUse),
    /// No set of rules has this name.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// There is no gateway.
    #[error("no gateway is enrolled to be used; `hawser up --gateway URL` enrols with one")]
    NoGateway,
    /// Not one rule.
    #[error("one rule is expected, not {0}")]
    Rules(usize),
    /// Every rule is shown with all that it says.
    #[error("the rule has {0} bytes; allowed: {MAX_RULE}")]
    TooLong(usize),
    /// Rules need room, in the kernel too.
    #[error("there are {0} rules until the daemon ends already, and there may be no more")]
    TooManyRules(usize),
    /// No rule that ends with the daemon has this number.
    #[error("there is no rule {number} that ends with the daemon; there are {count}")]
    UnknownRule {
        /// The number that was given.
        number: u64,
        /// Number of such rules.
        count: usize,
    },
    /// Another rule has that number by now.
    #[error(transparent)]
    RulesChanged(#[from] RulesChanged),
    /// It can't be written down.
    #[error("it can't be saved: {}", explained(.0))]
    Unsaved(anyhow::Error),
    /// It was written down, but can't be put in force.
    #[error("it is saved to {}, but the rules in force stay as they were: {error}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Error of reading the rules again.
        error: Box<ConfigError>,
    },
    /// Some other request.
    #[error("this is nothing to be changed")]
    Unsupported,
}

impl Refused {
    /// The kind of fault, for programs.
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

    /// The refusal for a change that could not be written to a file.
    pub(crate) fn by_writing(error: anyhow::Error) -> Self {
        error
            .downcast()
            .map_or_else(Self::Unsaved, Self::RulesChanged)
    }
}

/// Bytes of one rule, written out: as many such rules as may end with the daemon fit one answer.
pub(crate) const MAX_RULE: usize = 3_000;
