//! The user's rules for connections, and where they are kept.

pub mod edit;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hawser_config::{ConfigError, load_rules, rule_set};
use hawser_keys::store::StateFile;
use hawser_policy::{Profile, Rule, RuleSet};

use crate::config_file::ConfigFile;
use crate::setup::Setup;

/// The files that hold the user's rules: the configuration, and the file that `hawser rule` writes
/// if there is no configuration.
#[derive(Clone, Debug)]
pub struct RuleFiles {
    /// The configuration; it may be missing.
    pub config: ConfigFile,
    /// The file in the state directory; it may be missing.
    pub(crate) own: PathBuf,
}

/// The rules of the files.
#[derive(Debug, PartialEq)]
pub struct UserRules {
    pub(crate) profile: Profile,
    /// Rules in the configuration; they come first.
    pub(crate) configured: Vec<Rule>,
    /// Rules in the state directory.
    pub(crate) own: Vec<Rule>,
}

impl RuleFiles {
    /// Returns the files of this configuration and state directory.
    pub fn of(setup: &Setup) -> Self {
        Self {
            config: setup.config_file.clone(),
            own: setup.state.file(OWN),
        }
    }

    /// Reads both files.
    pub fn read(&self) -> Result<UserRules, ConfigError> {
        let config = self.config.load()?;
        let own = match load_rules(&self.own) {
            Err(ConfigError::Read { source, .. }) if is_missing(&source) => Vec::new(),
            read => read?,
        };
        Ok(UserRules {
            profile: config.connection.profile,
            configured: config.rules,
            own,
        })
    }

    /// Returns values that change when one of the files changes.
    pub(crate) fn stamp(&self) -> [Option<Stamp>; 2] {
        [stamp(self.config.path()), stamp(&self.own)]
    }
}

impl UserRules {
    /// Returns the user's rules in the order in which they apply.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rule> {
        self.configured.iter().chain(&self.own)
    }

    /// Returns all rules that apply; the rules that were added to a running daemon come first.
    pub fn set(&self, said: &Said) -> RuleSet {
        let rules = said.rules.iter().chain(self.all()).cloned();
        rule_set(rules, said.profile.unwrap_or(self.profile))
    }
}

/// Run-time changes, which end with the daemon.
#[derive(Debug, Default)]
pub struct Said {
    /// Rules that apply before those in files.
    pub rules: Vec<Rule>,
    /// Profile in place of the one in the configuration.
    pub profile: Option<Profile>,
}

/// Values of a file that change when the file is written or replaced: inode, size, and time of the
/// last change.
pub(crate) type Stamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let of = |file: Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// Name of the file in the state directory.
const OWN: &str = StateFile::Rules.name();
