//! The rules for connections that are in force in a daemon: those of files, which are read again
//! when they change, and those that are added while the daemon runs.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_config::ConfigError;
use hawser_control::RuleStatus;
use hawser_net::ticks::Ticks;
use hawser_policy::{Profile, Rule, RuleSet, Source};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::proxy::direct::ConnectionRules;
use crate::rule_files::edit::{self, RulesChanged};
use crate::rule_files::{RuleFiles, Said, Stamp, UserRules};

/// The rules in force. The files are followed until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct LiveRules {
    shared: Arc<RulesState>,
}

#[derive(Debug)]
struct RulesState {
    files: RuleFiles,
    /// Allows one reading of the files at a time.
    reading: Mutex<()>,
    known: Mutex<Known>,
    set: watch::Sender<Arc<RuleSet>>,
}

#[derive(Debug)]
struct Known {
    /// The rules of the files when they were last read.
    read: UserRules,
    said: Said,
    seen: [Option<Stamp>; 2],
}

impl LiveRules {
    /// Begins to follow the files. A file that can't be read later is only logged.
    ///
    /// Fails if the files can't be read now.
    pub fn follow(files: RuleFiles) -> Result<Self, ConfigError> {
        // The stamp is taken before reading, so that a change meanwhile is noticed next time.
        let seen = files.stamp();
        let read = files.read()?;
        let said = Said::default();
        let shared = Arc::new(RulesState {
            set: watch::Sender::new(Arc::new(read.set(&said))),
            reading: Mutex::default(),
            known: Mutex::new(Known { read, said, seen }),
            files,
        });
        tokio::spawn(watch(Arc::downgrade(&shared)));
        Ok(Self { shared })
    }

    /// Returns a receiver of the rules, which is notified of changes.
    pub fn subscribe(&self) -> ConnectionRules {
        self.shared.set.subscribe()
    }

    /// Returns the files of the user's rules.
    pub(crate) fn files(&self) -> &RuleFiles {
        &self.shared.files
    }

    /// Returns the number of rules that end with the daemon.
    pub(crate) fn said_count(&self) -> usize {
        self.shared.known.lock().said.rules.len()
    }

    /// Adds a rule before all others until the daemon ends. Returns `false` if there are too many
    /// such rules.
    pub(crate) fn add(&self, rule: Rule) -> bool {
        self.shared.change(|known| {
            let rules = &mut known.said.rules;
            let has_room = rules.len() < MAX_SAID;
            if has_room {
                let source = Source::Session;
                rules.insert(0, Rule { source, ..rule });
            }
            has_room
        })
    }

    /// Removes the rule at this index, counted from 0; returns `false` if no rule that ends with
    /// the daemon has the index. Fails if the rule's text is not `meant`.
    pub(crate) fn remove(&self, place: usize, meant: &str) -> Result<bool, RulesChanged> {
        self.shared.change(|known| {
            let rules = &mut known.said.rules;
            let Some(rule) = rules.get(place) else {
                return Ok(false);
            };
            if !edit::is_meant(rule, meant) {
                return Err(RulesChanged);
            }
            rules.remove(place);
            Ok(true)
        })
    }

    /// Returns the profile that is in force.
    pub(crate) fn profile(&self) -> Profile {
        let known = self.shared.known.lock();
        known.said.profile.unwrap_or(known.read.profile)
    }

    /// Puts another profile in force until the daemon ends; `None` restores the configured one.
    pub(crate) fn set_profile(&self, profile: Option<Profile>) {
        self.shared.change(|known| known.said.profile = profile);
    }

    /// Reads the files now, and puts their rules in force. If a file can't be read, the rules stay
    /// as they were.
    pub(crate) fn read(&self) -> Result<(), ConfigError> {
        self.shared.read()
    }

    /// Returns all rules except the built-in ones, in the form for monitors.
    pub(crate) fn statuses(&self) -> Vec<RuleStatus> {
        let set = Arc::clone(&self.shared.set.borrow());
        let rules = set.rules().iter().enumerate();
        let shown = rules.filter(|(_, rule)| rule.source != Source::BuiltIn);
        let status = |(place, rule): (usize, &Rule)| RuleStatus {
            number: place as u64 + 1,
            source: rule.source.to_string(),
            name: rule.name.clone(),
            when: rule.when.to_string(),
            then: rule.then.to_string(),
            rule: edit::text(rule),
        };
        shown.map(status).collect()
    }
}

impl RulesState {
    /// Changes the known rules, and puts the result in force.
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock();
        let done = change(&mut known);
        let set = known.read.set(&known.said);
        // Still under the lock, so that the last change wins.
        self.set.send_if_modified(|old| {
            let differs = **old != set;
            *old = Arc::new(set);
            differs
        });
        done
    }

    /// Reads the files if they have changed.
    fn look(&self) {
        let has_changed = self.files.stamp() != self.known.lock().seen;
        if has_changed && let Err(error) = self.read() {
            tracing::warn!("the rules for connections are unchanged: {error}");
        }
    }

    fn read(&self) -> Result<(), ConfigError> {
        // Locked, so that the latest reading of the files is the one in force.
        let _turn = self.reading.lock();
        let stamp = self.files.stamp();
        let read = self.files.read();
        let mut known = self.known.lock();
        known.seen = stamp;
        let read = read?;
        if known.read != read {
            let own = read.all().count();
            tracing::info!(user_rules = own, "reloaded the rules for connections");
        }
        drop(known);
        self.change(|known| known.read = read);
        Ok(())
    }
}

async fn watch(shared: Weak<RulesState>) {
    let mut ticks = Ticks::every(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.look();
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Limit of rules that end with the daemon: the program in the kernel evaluates no more rules.
const MAX_SAID: usize = 64;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hawser_keys::store::StateDir;
    use hawser_policy::{Action, LinkChoice, Mode};

    use super::*;
    use crate::config_file::ConfigFile;

    /// Returns the configuration with this name in `folder`, which must exist; without a name, the
    /// default one of this state directory.
    fn config(folder: &Path, named: Option<&str>) -> ConfigFile {
        let state = StateDir::resolve(Some(folder.to_owned())).unwrap();
        ConfigFile::resolve(named.map(|name| folder.join(name)), &state, true)
    }

    fn files(folder: &Path) -> RuleFiles {
        RuleFiles {
            config: config(folder, Some("hawser.toml")),
            own: folder.join("rules.toml"),
        }
    }

    fn users(set: &RuleSet) -> Vec<String> {
        let rules = set.rules().iter();
        let users = rules.filter(|rule| rule.source <= Source::User);
        users.map(|rule| rule.then.to_string()).collect()
    }

    fn only(link: &str) -> Rule {
        Rule {
            then: Action {
                links: Some(LinkChoice::Only(vec![link.to_owned()])),
                ..Action::default()
            },
            ..Rule::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_read_again_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let (config, own) = (files.config.path().to_owned(), files.own.clone());
        std::fs::write(&config, "[[rule]]\nclass = \"bulk\"\n").unwrap();
        let live = LiveRules::follow(files).unwrap();
        let mut rules = live.subscribe();
        assert_eq!(users(&rules.borrow_and_update()), ["class bulk"]);

        std::fs::write(&own, "[[rule]]\nmode = \"direct\"\n").unwrap();
        rules.changed().await.unwrap();
        let both = ["class bulk", "mode direct"];
        assert_eq!(users(&rules.borrow_and_update()), both);

        std::fs::write(&config, "[[rule]]\nclass = \"fast\"\n").unwrap();
        tokio::time::sleep(3 * LOOK_EVERY).await;
        assert_eq!(users(&rules.borrow_and_update()), both);

        std::fs::remove_file(&own).unwrap();
        std::fs::write(&config, "[connection]\nprofile = \"calls\"\n").unwrap();
        rules.changed().await.unwrap();
        let first = rules.borrow_and_update().rules()[0].source;
        assert_eq!(first, Source::Profile);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_comes_first_and_outlives_changes_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let config = files.config.path().to_owned();
        std::fs::write(&config, "[[rule]]\nclass = \"bulk\"\n").unwrap();
        let live = LiveRules::follow(files).unwrap();
        let mut rules = live.subscribe();
        assert!(live.add(only("a")) && live.add(only("b")));
        live.set_profile(Some(Profile::Calls));
        assert!(rules.has_changed().unwrap());
        let before = users(&rules.borrow_and_update());
        assert_eq!(before, ["only b", "only a", "class bulk"]);

        let text = "[connection]\nprofile = \"saver\"\n[[rule]]\nmode = \"direct\"\n";
        std::fs::write(&config, text).unwrap();
        rules.changed().await.unwrap();
        let after = users(&rules.borrow_and_update());
        assert_eq!(after, ["only b", "only a", "mode direct"]);
        assert_eq!(live.profile(), Profile::Calls);

        let told = live.statuses();
        assert_eq!((told[1].number, told[1].source.as_str()), (2, "session"));
        assert_eq!((told[2].number, told[2].source.as_str()), (3, "user"));
        assert_eq!(told[3].source, "profile");
        assert_eq!(told[1].rule, "only = \"a\"\n");

        let text = |link| format!("only = \"{link}\"\n");
        assert!(live.remove(0, &text("a")).is_err());
        assert!(live.remove(1, &text("a")).unwrap());
        assert!(!live.remove(1, &text("a")).unwrap());
        live.set_profile(None);
        assert_eq!(live.profile(), Profile::Saver);
        assert_eq!(users(&rules.borrow_and_update()), ["only b", "mode direct"]);
    }

    #[tokio::test]
    async fn there_is_room_for_so_many_rules_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let files = RuleFiles {
            config: config(folder.path(), None),
            ..files(folder.path())
        };
        let live = LiveRules::follow(files).unwrap();
        let direct = Rule {
            then: Action {
                mode: Some(Mode::Direct),
                ..Action::default()
            },
            ..Rule::default()
        };
        assert!((0..MAX_SAID).all(|_| live.add(direct.clone())));
        assert!(!live.add(direct));
        assert_eq!(live.said_count(), MAX_SAID);
    }

    #[tokio::test]
    async fn a_file_that_is_broken_from_the_start_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let missing = LiveRules::follow(files.clone()).unwrap_err().to_string();
        assert!(missing.contains("hawser.toml"), "{missing}");
        std::fs::write(files.config.path(), "").unwrap();
        std::fs::write(&files.own, "[[rule]]\nport = 0\nclass = \"bulk\"").unwrap();
        let broken = LiveRules::follow(files).unwrap_err().to_string();
        assert!(broken.contains("rules.toml:2: `rule.port`"), "{broken}");
    }
}
