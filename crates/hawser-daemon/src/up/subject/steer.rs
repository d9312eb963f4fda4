//! Changes of `hawser up` while it runs: links, policies, the gateway, rules.
//!
//! Each change is checked first, then saved if requested, then applied: an invalid change changes
//! nothing. Only an error in another file is noticed after saving, and is then reported.

use std::path::{Path, PathBuf};

use hawser_config::{ChunkPolicy, ConnectionPolicy, GatewayUse, TransportChoice, parse_rules};
use hawser_control::{LinkChange, PolicyStatus, Request, Scheduled};
use hawser_policy::{Profile, Rule};
use hawser_sched::packet::PacketPolicy;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::ClientSubject;
use crate::config_file::absolute;
use crate::proxy::rules::CheckedChange;
use crate::proxy::saved;
use crate::refusal::{Changed, MAX_RULE, Refused};
use crate::rule_files::edit::{self, Spot};

impl ClientSubject {
    /// Returns how links are chosen, and the alternatives.
    pub(super) fn policy_status(&self) -> PolicyStatus {
        let name = |it: &str| it.to_owned();
        let gateway = self.director.gateway_use();
        let config = &self.connection_rules.files().config;
        let rules = self.connection_rules.statuses();
        PolicyStatus {
            sessions: name(self.choice.borrow().scheduler.name()),
            sessions_known: ChunkPolicy::ALL.map(|it| name(it.name())).into(),
            connections: Some(name(self.director.policy().name())),
            connections_known: ConnectionPolicy::ALL.map(|it| name(it.name())).into(),
            packets: Some(name(self.choice.borrow().packet_scheduler.name())),
            packets_known: PacketPolicy::ALL.map(|it| name(it.name())).into(),
            transport: Some(name(self.choice.borrow().transport.name())),
            transports_known: TransportChoice::ALL.map(|it| name(it.name())).into(),
            profile: Some(name(self.connection_rules.profile().name())),
            profiles_known: Profile::ALL.iter().map(|it| name(it.name())).collect(),
            gateway: gateway.map(|usage| name(usage.name())),
            rule_count: rules.len() as u64,
            rules,
            file: (config.is_there()).then(|| absolute(config.path()).display().to_string()),
        }
    }

    /// Carries out a change.
    pub(super) fn do_otherwise(&self, asked: &Request) -> Changed {
        // One change at a time, so that the saved state and the state in force are the same.
        // The task that holds the lock may be waiting for the disk.
        let _turn = on_disk(|| self.changing.lock());
        match asked {
            Request::SetLink(change) => self.use_link(change),
            Request::SetScheduler {
                of: Scheduled::Sessions,
                scheduler,
                save,
            } => self.place_chunks(scheduler.parse()?, *save),
            Request::SetScheduler {
                of: Scheduled::Connections,
                scheduler,
                save,
            } => self.place_connections(scheduler.parse()?, *save),
            Request::SetScheduler {
                of: Scheduled::Packets,
                scheduler,
                save,
            } => self.place_packets(scheduler.parse()?, *save),
            Request::SetTransport { transport, save } => {
                self.travel_over(transport.parse()?, *save)
            }
            Request::SetGateway { usage, save } => self.use_gateway(usage.parse()?, *save),
            Request::SetProfile { profile, save } => self.use_profile(profile.parse()?, *save),
            Request::AddRule { rule, save } => self.add_rule(rule, *save),
            Request::RemoveRule { number, rule, save } => self.remove_rule(*number, rule, *save),
            _ => Err(Refused::Unsupported),
        }
    }

    fn use_link(&self, asked: &LinkChange) -> Changed {
        let change = CheckedChange::read(asked)?;
        if change.is_empty() {
            return Err(Refused::Nothing);
        }
        let is_there = self.links.borrow().iter().any(|it| it.name == change.name);
        // A link that the configuration names may be plugged in later.
        if !is_there && !self.rules.knows(&change.name) {
            let links = self.links.borrow();
            let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            return Err(Refused::UnknownLink {
                name: change.name,
                known: known.join(", "),
            });
        }
        self.rules.check(&change)?;
        let saved = self.save(asked.save, |config| saved::set_link(config, &change))?;
        self.rules.apply(&change);
        for (_, client) in self.clients() {
            client.set_rules(self.rules.in_force());
        }
        self.director.set_link_rules(self.rules.for_director());
        Ok(saved)
    }

    fn place_chunks(&self, policy: ChunkPolicy, save: bool) -> Changed {
        let saved = self.save_word(save, "session", "scheduler", policy.name())?;
        self.choice.send_modify(|choice| choice.scheduler = policy);
        for (_, client) in self.clients() {
            client.set_scheduler(policy);
        }
        Ok(saved)
    }

    fn place_packets(&self, policy: PacketPolicy, save: bool) -> Changed {
        let saved = self.save_word(save, "session", "packet-scheduler", policy.name())?;
        self.choice
            .send_modify(|choice| choice.packet_scheduler = policy);
        for (_, client) in self.clients() {
            client.set_packet_scheduler(policy);
        }
        Ok(saved)
    }

    fn travel_over(&self, transport: TransportChoice, save: bool) -> Changed {
        let saved = self.save_word(save, "session", "transport", transport.name())?;
        self.choice
            .send_modify(|choice| choice.transport = transport);
        for (_, client) in self.clients() {
            client.set_transport(transport);
        }
        Ok(saved)
    }

    fn place_connections(&self, policy: ConnectionPolicy, save: bool) -> Changed {
        let saved = self.save_word(save, "connection", "scheduler", policy.name())?;
        self.director.set_policy(policy);
        Ok(saved)
    }

    fn use_gateway(&self, usage: GatewayUse, save: bool) -> Changed {
        if self.director.gateway_use().is_none() {
            return Err(Refused::NoGateway);
        }
        let saved = self.save_word(save, "connection", "gateway", usage.name())?;
        self.director.set_gateway(usage);
        Ok(saved)
    }

    fn use_profile(&self, profile: Profile, save: bool) -> Changed {
        let saved = self.save_word(save, "connection", "profile", profile.name())?;
        let rules = &self.connection_rules;
        if saved.is_some() {
            // The file now has the profile, and later changes of the file apply.
            rules.set_profile(None);
            if let Err(error) = on_disk(|| rules.read()) {
                tracing::warn!("the profile is in force, but the rules are unchanged: {error}");
            }
        }
        if rules.profile() != profile {
            rules.set_profile(Some(profile));
        }
        Ok(saved)
    }

    fn add_rule(&self, text: &str, save: bool) -> Changed {
        let rule = one_rule(text)?;
        if save {
            let files = self.connection_rules.files();
            let written = on_disk(|| edit::add(files, &rule, &Spot::First, 0));
            return self.read_again(written);
        }
        if self.connection_rules.add(rule) {
            Ok(None)
        } else {
            Err(Refused::TooManyRules(self.connection_rules.said_count()))
        }
    }

    fn remove_rule(&self, number: u64, meant: &str, save: bool) -> Changed {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let count = self.connection_rules.said_count();
        if save {
            let files = self.connection_rules.files();
            let written = on_disk(|| edit::remove(files, place, count, Some(meant)));
            return self.read_again(written.map(|(_, path)| path));
        }
        let removed = match place.checked_sub(1) {
            Some(place) => self.connection_rules.remove(place, meant)?,
            None => false,
        };
        if removed {
            Ok(None)
        } else {
            Err(Refused::UnknownRule { number, count })
        }
    }

    fn save_word(&self, save: bool, section: &str, key: &str, word: &str) -> Changed {
        self.save(save, |config| saved::set(config, section, key, word))
    }

    /// Calls `write` with the configuration if the change is to be saved.
    fn save(&self, save: bool, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> Changed {
        if !save {
            return Ok(None);
        }
        let config = &self.connection_rules.files().config;
        let begin_and_write = || {
            config.begin()?;
            write(config.path())
        };
        on_disk(begin_and_write).map_err(Refused::Unsaved)?;
        Ok(Some(absolute(config.path())))
    }

    /// Puts the rules in the written file in force.
    fn read_again(&self, written: anyhow::Result<PathBuf>) -> Changed {
        let path = absolute(&written.map_err(Refused::by_writing)?);
        match on_disk(|| self.connection_rules.read()) {
            Ok(()) => Ok(Some(path)),
            Err(error) => Err(Refused::Unread {
                path,
                error: Box::new(error),
            }),
        }
    }
}

/// Parses a text with keys and values as one rule.
fn one_rule(text: &str) -> Result<Rule, Refused> {
    let rules = parse_rules("the rule", &format!("[[rule]]\n{text}")).map_err(Refused::Config)?;
    let count = rules.len();
    let rule = rules.into_iter().next().filter(|_| count == 1);
    let rule = rule.ok_or(Refused::Rules(count))?;
    match edit::text(&rule).len() {
        length if length > MAX_RULE => Err(Refused::TooLong(length)),
        _ => Ok(rule),
    }
}

/// Runs `work`, which may wait for the disk, without blocking other tasks of this thread.
fn on_disk<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests;
