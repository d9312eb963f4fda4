//! The user's rules for connections: where they are kept, and their reading again when they change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser_config::{Config, ConfigError, load_rules, rule_set};
use hawser_policy::{Profile, Rule, RuleSet};
use tokio::sync::watch;

use crate::setup::Setup;

/// The files that hold the user's rules: the configuration, and the one that `hawser rule` writes
/// where there is none.
#[derive(Clone, Debug)]
pub(crate) struct RuleFiles {
    /// None when no configuration is named.
    pub(crate) config: Option<PathBuf>,
    /// In the state directory; need not be there.
    pub(crate) own: PathBuf,
}

/// What they say.
#[derive(Debug)]
pub(crate) struct UserRules {
    pub(crate) profile: Profile,
    /// In the configuration; they come first.
    pub(crate) configured: Vec<Rule>,
    /// In the state directory.
    pub(crate) own: Vec<Rule>,
}

impl RuleFiles {
    pub(crate) fn of(setup: &Setup) -> Self {
        Self {
            config: setup.config_file.clone(),
            own: setup.state.file(OWN),
        }
    }

    /// Reads both.
    pub(crate) fn read(&self) -> Result<UserRules, ConfigError> {
        let config = self.config.as_deref().map(Config::load);
        let config = config.transpose()?.unwrap_or_default();
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

    /// The rules that are in force, now and whenever the files change. A file that can't be read
    /// changes nothing but the log.
    ///
    /// Fails when they can't be read now. Ends when nobody listens any more.
    pub(crate) fn follow(self) -> Result<watch::Receiver<Arc<RuleSet>>, ConfigError> {
        let stamp = self.stamp();
        let (sender, rules) = watch::channel(Arc::new(self.read()?.set()));
        tokio::spawn(self.watch(stamp, sender));
        Ok(rules)
    }

    async fn watch(self, mut seen: [Option<Stamp>; 2], rules: watch::Sender<Arc<RuleSet>>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        while !rules.is_closed() {
            ticks.tick().await;
            // Before reading: what is written meanwhile is read next time.
            let stamp = self.stamp();
            if stamp == seen {
                continue;
            }
            seen = stamp;
            match self.read() {
                Ok(read) => {
                    let (own, set) = (read.configured.len() + read.own.len(), read.set());
                    tracing::info!("the rules for connections have changed; {own} are yours");
                    rules.send_replace(Arc::new(set));
                }
                Err(error) => {
                    tracing::warn!("the rules for connections stay as they were: {error}")
                }
            }
        }
    }

    fn stamp(&self) -> [Option<Stamp>; 2] {
        [self.config.as_deref().and_then(stamp), stamp(&self.own)]
    }
}

impl UserRules {
    /// All rules that are asked.
    pub(crate) fn set(self) -> RuleSet {
        let user = self.configured.into_iter().chain(self.own);
        rule_set(user, self.profile)
    }
}

/// What differs when a file was written or replaced: inode, size, and time of its last change.
type Stamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let of = |file: Metadata| (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// In the state directory.
const OWN: &str = "rules.toml";
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use hawser_policy::Source;

    use super::*;

    fn files(folder: &Path) -> RuleFiles {
        RuleFiles {
            config: Some(folder.join("hawser.toml")),
            own: folder.join(OWN),
        }
    }

    fn users(set: &RuleSet) -> Vec<String> {
        let rules = set.rules().iter();
        let users = rules.filter(|rule| rule.source == Source::User);
        users.map(|rule| rule.then.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_read_again_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let config = files.config.clone().unwrap();
        std::fs::write(&config, "[[rule]]\nclass = \"bulk\"\n").unwrap();
        let mut rules = files.clone().follow().unwrap();
        assert_eq!(users(&rules.borrow_and_update()), ["class bulk"]);

        std::fs::write(&files.own, "[[rule]]\nmode = \"direct\"\n").unwrap();
        rules.changed().await.unwrap();
        let both = ["class bulk", "mode direct"];
        assert_eq!(users(&rules.borrow_and_update()), both);

        std::fs::write(&config, "[[rule]]\nclass = \"fast\"\n").unwrap();
        tokio::time::sleep(3 * LOOK_EVERY).await;
        assert_eq!(users(&rules.borrow_and_update()), both);

        std::fs::remove_file(&files.own).unwrap();
        std::fs::write(&config, "[connection]\nprofile = \"calls\"\n").unwrap();
        rules.changed().await.unwrap();
        let first = rules.borrow_and_update().rules()[0].source;
        assert_eq!(first, Source::Profile);
    }

    #[tokio::test]
    async fn a_file_that_is_broken_from_the_start_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let missing = files.clone().follow().unwrap_err().to_string();
        assert!(missing.contains("hawser.toml"), "{missing}");
        std::fs::write(files.config.as_ref().unwrap(), "").unwrap();
        std::fs::write(&files.own, "[[rule]]\nport = 0\nclass = \"bulk\"").unwrap();
        let broken = files.follow().unwrap_err().to_string();
        assert!(broken.contains("rules.toml:2: `rule.port`"), "{broken}");
    }
}
