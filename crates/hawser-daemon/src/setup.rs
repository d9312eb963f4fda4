//! The settings with which every command begins, its errors, and the signals that end it.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::anyhow;
use hawser_config::{Config, ConfigError};
use hawser_control::{LinkState, LinkStatus};
use hawser_front::peer::ReservedNames;
use hawser_keys::store::{NameStore, StateDir};
use hawser_link::links::{Link, usable};
use hawser_session::{SctpPaths, TransportChoice};
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};

use crate::config_file::ConfigFile;

/// The configuration and the state directory.
#[derive(Clone)]
pub struct Setup {
    /// The configuration, as flags have changed it.
    pub config: Config,
    /// The state directory.
    pub state: StateDir,
    /// The file that the configuration was read from, or would have been.
    pub config_file: ConfigFile,
    /// Standard error is a terminal, and the user has not asked for a log.
    pub is_at_terminal: bool,
    /// This process takes over from the process that started it.
    pub is_taking_over: bool,
}

/// Error for an invalid request of the user: the program exits with code 2, as after a mistake on
/// the command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Setup {
    /// Returns a copy with this transport, if one was named on the command line.
    pub fn with_transport(&self, named: Option<TransportChoice>) -> Self {
        let mut setup = self.clone();
        setup.config.session.transport = named.unwrap_or(setup.config.session.transport);
        setup
    }

    /// Returns the host names in the list of known hosts.
    pub fn reserved_names(&self) -> anyhow::Result<ReservedNames> {
        let store = NameStore::open(&self.state)?;
        Ok(ReservedNames::new(Arc::new(store)))
    }

    /// Returns a copy with these paths for associations, if they were named on the command line.
    pub fn with_sctp_paths(&self, named: Option<SctpPaths>) -> Self {
        let mut setup = self.clone();
        setup.config.session.sctp_paths = named.unwrap_or(setup.config.session.sctp_paths);
        setup
    }
}

/// Creates a directory in the state directory with a key and peers of its own.
pub fn substate(state: &StateDir, name: &str) -> anyhow::Result<StateDir> {
    state.prepare()?;
    let inner = StateDir::resolve(Some(state.file(name)))?;
    inner.prepare()?;
    Ok(inner)
}

/// Resolves when a signal asks the program to end. Until this future is polled, a signal ends the
/// program at once.
pub async fn asked_to_end() {
    EndSignals::heed().asked_to_end().await;
}

/// The signals that ask the program to end.
#[derive(Debug)]
pub(crate) struct EndSignals([io::Result<Arrivals>; 2]);

impl EndSignals {
    /// Installs handlers: from now on the signals do not end the program by themselves.
    pub(crate) fn heed() -> Self {
        Self([SignalKind::terminate(), SignalKind::interrupt()].map(signal))
    }

    /// Resolves when a signal has arrived since [`Self::heed`].
    pub(crate) async fn asked_to_end(self) {
        let [Ok(mut terminate), Ok(mut interrupt)] = self.0 else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// Returns the states of the links. `wanted` lists the links that the user has named; empty means
/// all. The list includes the loopback interface if the user has named it, or if a session uses it
/// (`is_near`).
pub(crate) fn link_list(links: &[Link], wanted: &[String], is_near: bool) -> Vec<LinkStatus> {
    let chosen = usable(links, wanted);
    let is_shown = |link: &&Link| !link.loopback || is_near || wanted.contains(&link.name);
    let describe = |link: &Link| {
        let unusable = link.why_unusable();
        let is_chosen = chosen.iter().any(|other| other.index == link.index);
        let routed = link.has_default_route_v4 || link.has_default_route_v6;
        let (state, reason) = match unusable {
            Some(_) if link.loopback && is_near => (LinkState::Up, None),
            Some(why) if link.loopback => (LinkState::Unused, Some(why.to_string())),
            Some(why) => (LinkState::Down, Some(why.to_string())),
            None if !is_chosen && !wanted.is_empty() => (LinkState::Unused, None),
            None if !is_chosen => {
                let why = format!("a {} without a default route", link.kind);
                (LinkState::Unused, Some(why))
            }
            None if !routed => (
                LinkState::NoInternet,
                Some("no default route leads by it".to_owned()),
            ),
            None => (LinkState::Up, None),
        };
        LinkStatus {
            name: link.name.clone(),
            index: link.index,
            addresses: link.addresses.clone(),
            state,
            reason,
            ..LinkStatus::default()
        }
    };
    links.iter().filter(is_shown).map(describe).collect()
}

/// Returns a message with the links that the user has named and that are missing; `None` if all
/// exist.
pub fn missing_links(wanted: &[String], links: &[Link]) -> Option<String> {
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let wanted = wanted.iter().map(String::as_str);
    let missing: Vec<&str> = wanted.filter(|name| !names.contains(name)).collect();
    let (missing, known) = (missing.join(" or "), names.join(", "));
    (!missing.is_empty()).then(|| format!("no link is called {missing}; there are {known}"))
}

/// Returns an error with the reason why listening at an address failed, and the remedy.
pub(crate) fn not_listening(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    let why = match error.kind() {
        AddrInUse => "another program has it; end that one, or name another with --listen".into(),
        AddrNotAvailable => "no interface of this machine has this address".into(),
        PermissionDenied => "ports below 1024 need root, or CAP_NET_BIND_SERVICE".into(),
        _ => error.to_string(),
    };
    anyhow!("can't listen on {address}: {why}")
}

/// Writes to standard output. If the reader has closed it, the program ends as after success.
pub fn show(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes `value` as JSON to standard output.
pub fn show_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    show(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Returns an error with its causes; omits a cause whose text is already quoted.
pub fn explained(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns whether the cause is a mistake in the configuration or on the command line.
pub fn is_usage(error: &anyhow::Error) -> bool {
    let config = error.downcast_ref::<ConfigError>();
    let is_content = config.is_some_and(|error| !matches!(error, ConfigError::Read { .. }));
    is_content || error.is::<Usage>()
}

/// Name of the flag of a process that takes over from the one that started it.
pub const TAKING_OVER: &str = "taking-over";

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::*;

    #[test]
    fn the_loopback_interface_is_shown_where_it_was_named_or_is_used() {
        let link = |name: &str, index, loopback| Link {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            has_default_route_v4: true,
            takes_ordinary_v4: true,
            loopback,
            ..Link::new(LinkIndex::new(index), name)
        };
        let links = [link("lo", 1, true), link("dsl", 2, false)];
        let shown = |wanted: &[&str], is_near| {
            let wanted: Vec<String> = wanted.iter().map(|&it| it.to_owned()).collect();
            let list = link_list(&links, &wanted, is_near).into_iter();
            list.map(|link| (link.name, link.state)).collect::<Vec<_>>()
        };
        let named = |name: &str, state| (name.to_owned(), state);
        let dsl = named("dsl", LinkState::Up);
        assert_eq!(shown(&[], false), std::slice::from_ref(&dsl));
        assert_eq!(shown(&["dsl"], false), std::slice::from_ref(&dsl));
        let lo = named("lo", LinkState::Unused);
        assert_eq!(shown(&["lo", "dsl"], false), [lo, dsl.clone()]);
        assert_eq!(shown(&[], true), [named("lo", LinkState::Up), dsl]);
    }

    #[test]
    fn a_cause_is_not_said_twice() {
        let quoted = anyhow::anyhow!("no such file").context("can't open x: no such file");
        assert_eq!(explained(&quoted), "can't open x: no such file");
        let plain = anyhow::anyhow!("no such file").context("can't open x");
        assert_eq!(explained(&plain), "can't open x: no such file");
    }
}
