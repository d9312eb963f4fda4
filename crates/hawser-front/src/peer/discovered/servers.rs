//! Knowledge about servers besides their keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hawser_keys::identity::PublicKey;
use hawser_types::DialError;
use hawser_wire::KeyHint;
use tokio::time::Instant;

/// Servers that connections went to lately.
#[derive(Debug, Default)]
pub(super) struct Servers {
    known: BTreeMap<SocketAddr, Server>,
}

#[derive(Debug)]
struct Server {
    /// Time of the last connection over a link that could have gone over a session.
    asked: Option<Instant>,
    /// A handshake has announced that the server has Hawser.
    has_offered: bool,
    hint: Option<KeyHint>,
    /// Time until which connections go without a session.
    aside_until: Option<Instant>,
    /// Time until which no handshake asks for a bond.
    no_bond_until: Option<Instant>,
    /// Length of the last pause after a refused bond.
    refused_for: Option<Duration>,
    problem: Option<Problem>,
}

/// A server that has Hawser, with which a session was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundServer {
    /// The server's address and port.
    pub at: SocketAddr,
    /// The server's key, which is pinned.
    pub key: PublicKey,
    /// True if a handshake in this run has announced that the server has Hawser; otherwise a
    /// probe has shown it.
    pub by_handshake: bool,
    /// True if a session with the server runs now, which carries the connections to it.
    pub is_bonded: bool,
}

/// A server that connections go to without a session, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBonded {
    /// The server's address and port.
    pub at: SocketAddr,
    /// The problem.
    pub problem: Problem,
}

/// Why connections to a server go without a session although it has Hawser, or had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The proved key differs: another host, an attacker, or a server that was set up anew.
    #[error("the server proves the key {got}, but {pinned} is pinned")]
    OtherKey {
        /// The key that this host keeps.
        pinned: PublicKey,
        /// The key that was proved.
        got: PublicKey,
    },
    /// The handshake names another key than the one that is pinned or was proved.
    #[error("the server's handshake names another key")]
    OtherHint,
    /// An earlier handshake made an offer; a middlebox may remove it now.
    #[error("the server's handshake no longer announces Hawser")]
    NotOffered,
    /// The session carries no streams to this port.
    #[error("streams to this port fail: {0}")]
    Refused(DialError),
}

impl Problem {
    /// Returns how much the problem reveals about the server; a greater weight reveals more.
    fn weight(&self) -> u8 {
        match self {
            Self::OtherKey { .. } => 3,
            Self::OtherHint => 2,
            Self::Refused(_) => 1,
            Self::NotOffered => 0,
        }
    }
}

impl Servers {
    /// Records that a connection to `at` goes over a link.
    pub(super) fn note_asked(&mut self, at: SocketAddr, now: Instant) {
        self.server(at).asked = Some(now);
    }

    /// Records an offer in a handshake: the server has Hawser and will prove the hinted key.
    pub(super) fn note_offer(&mut self, at: SocketAddr, hint: Option<KeyHint>) {
        let server = self.server(at);
        (server.has_offered, server.hint) = (true, hint);
        server
            .problem
            .take_if(|problem| *problem == Problem::NotOffered);
    }

    /// Returns whether a handshake has ever said that the server has Hawser.
    pub(super) fn has_offered(&self, at: SocketAddr) -> bool {
        self.known.get(&at).is_some_and(|server| server.has_offered)
    }

    pub(super) fn hint(&self, at: SocketAddr) -> Option<KeyHint> {
        self.known.get(&at)?.hint
    }

    /// Returns the servers that connections reached over a link not long ago.
    pub(super) fn asked(&self, now: Instant) -> Vec<SocketAddr> {
        let known = self.known.keys();
        known
            .filter(|at| self.is_asked(**at, now))
            .copied()
            .collect()
    }

    /// Returns whether a connection to `at` went over a link not long ago, so that a session with
    /// it is worth beginning.
    pub(super) fn is_asked(&self, at: SocketAddr, now: Instant) -> bool {
        let asked = self.known.get(&at).and_then(|server| server.asked);
        asked.is_some_and(|asked| now.duration_since(asked) < WANTED_FOR)
    }

    /// Has connections to `at` go without a session for `span`.
    pub(super) fn set_aside(&mut self, at: SocketAddr, span: Duration, now: Instant) {
        self.server(at).aside_until = Some(now + span);
    }

    pub(super) fn is_set_aside(&self, at: SocketAddr, now: Instant) -> bool {
        let until = self.known.get(&at).and_then(|it| it.aside_until);
        until.is_some_and(|until| now < until)
    }

    /// Records that no session began on a connection to the port, although the server agreed.
    pub(super) fn note_no_bond(&mut self, at: SocketAddr, now: Instant) {
        self.server(at).no_bond_until = Some(now + ASIDE);
    }

    /// Records that the server has Hawser but refused a bond on the port itself. Each further
    /// refusal costs a connection, so the pause grows. Refusals of simultaneous connections count
    /// once.
    pub(super) fn note_bond_refused(&mut self, at: SocketAddr, now: Instant) {
        let server = self.server(at);
        if server.refused_for.is_some() && server.no_bond_until.is_some_and(|until| now < until) {
            return;
        }
        let pause = server.refused_for.map_or(ASIDE, |last| last * 2);
        let pause = pause.min(MAX_REFUSED_PAUSE);
        (server.refused_for, server.no_bond_until) = (Some(pause), Some(now + pause));
    }

    /// Records that a session began on a connection to the port itself and carries a stream.
    pub(super) fn note_bond(&mut self, at: SocketAddr) {
        let server = self.server(at);
        server.refused_for = None;
        // Another session may have failed meanwhile.
        server.aside_until = None;
    }

    pub(super) fn takes_bonds(&self, at: SocketAddr, now: Instant) -> bool {
        let until = self.known.get(&at).and_then(|it| it.no_bond_until);
        until.is_none_or(|until| until <= now)
    }

    /// Stores the current problem of a server; returns whether it is news. Ignores a problem that
    /// weighs less than the stored one, so that alternating problems are reported once.
    pub(super) fn set_problem(&mut self, at: SocketAddr, problem: Option<Problem>) -> bool {
        let weight = |problem: Option<Problem>| problem.as_ref().map(Problem::weight);
        match self.known.get_mut(&at) {
            Some(server) if problem.is_some() && weight(server.problem) > weight(problem) => false,
            Some(server) => std::mem::replace(&mut server.problem, problem) != problem,
            None if problem.is_none() => false,
            None => {
                self.server(at).problem = problem;
                true
            }
        }
    }

    pub(super) fn problems(&self) -> Vec<NotBonded> {
        let amiss = self.known.iter().filter_map(|(at, server)| {
            let problem = server.problem?;
            Some(NotBonded { at: *at, problem })
        });
        amiss.collect()
    }

    fn server(&mut self, at: SocketAddr) -> &mut Server {
        if self.known.len() >= MAX_SERVERS && !self.known.contains_key(&at) {
            let eldest = self.known.iter().min_by_key(|(_, server)| server.asked);
            let eldest = eldest.map(|(at, _)| *at);
            eldest.and_then(|eldest| self.known.remove(&eldest));
        }
        self.known.entry(at).or_insert(Server {
            asked: None,
            has_offered: false,
            hint: None,
            aside_until: None,
            no_bond_until: None,
            refused_for: None,
            problem: None,
        })
    }
}

/// Time after a connection during which a session is worth beginning.
const WANTED_FOR: Duration = Duration::from_secs(60);
/// Time for which connections go without a session that was of no use.
pub(super) const ASIDE: Duration = Duration::from_secs(60);
/// Time for which connections go without a session that does not lead to their port at all.
pub(super) const NOT_FRONTED: Duration = Duration::from_secs(600);
/// The longest pause after refused bonds.
const MAX_REFUSED_PAUSE: Duration = Duration::from_secs(3600);
/// Largest number of servers kept, however many there are.
const MAX_SERVERS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], n))
    }

    #[test]
    fn what_is_amiss_is_news_once_and_a_session_of_no_use_is_set_aside_for_a_while() {
        let (mut servers, now) = (Servers::default(), Instant::now());
        assert!(!servers.set_problem(at(1), None));
        assert!(servers.set_problem(at(1), Some(Problem::OtherHint)));
        assert!(!servers.set_problem(at(1), Some(Problem::OtherHint)));
        assert_eq!(servers.problems().len(), 1);
        assert!(servers.set_problem(at(1), None));
        assert!(servers.problems().is_empty());
        let other = Problem::OtherKey {
            pinned: PublicKey::from_bytes([1; 32]),
            got: PublicKey::from_bytes([2; 32]),
        };
        assert!(servers.set_problem(at(1), Some(Problem::OtherHint)));
        assert!(servers.set_problem(at(1), Some(other)));
        assert!(!servers.set_problem(at(1), Some(Problem::OtherHint)));
        assert!(!servers.set_problem(at(1), Some(Problem::NotOffered)));
        assert_eq!(servers.problems()[0].problem, other);
        let refused = Problem::Refused(DialError::RefusedByPolicy);
        assert!(servers.set_problem(at(2), Some(Problem::NotOffered)));
        assert!(servers.set_problem(at(2), Some(refused)));
        assert!(!servers.set_problem(at(2), Some(Problem::NotOffered)));
        servers.set_aside(at(1), ASIDE, now);
        assert!(servers.is_set_aside(at(1), now) && !servers.is_set_aside(at(2), now));
        assert!(!servers.is_set_aside(at(1), now + ASIDE));
    }

    #[test]
    fn the_pause_after_a_refused_bond_doubles_up_to_an_hour_and_begins_anew_after_a_bond() {
        let (mut servers, mut now) = (Servers::default(), Instant::now());
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            servers.note_bond_refused(at(1), now);
            servers.note_bond_refused(at(1), now);
            let until = now + Duration::from_secs(minutes * 60);
            assert!(!servers.takes_bonds(at(1), until - Duration::from_millis(1)));
            assert!(servers.takes_bonds(at(1), until) && servers.takes_bonds(at(2), now));
            now = until;
        }
        servers.set_aside(at(1), ASIDE, now);
        servers.note_bond(at(1));
        assert!(!servers.is_set_aside(at(1), now));
        servers.note_bond_refused(at(1), now);
        assert!(servers.takes_bonds(at(1), now + ASIDE));
        // A server that agreed and then failed is asked again after a minute.
        servers.note_no_bond(at(1), now);
        assert!(!servers.takes_bonds(at(1), now) && servers.takes_bonds(at(1), now + ASIDE));
    }

    #[test]
    fn servers_without_end_take_no_more_room() {
        let (mut servers, now) = (Servers::default(), Instant::now());
        for n in 0..3000 {
            servers.note_asked(at(n), now + Duration::from_millis(n.into()));
        }
        assert_eq!(servers.known.len(), MAX_SERVERS);
        assert!(
            servers
                .asked(now + Duration::from_secs(3))
                .contains(&at(2999))
        );
        assert!(servers.asked(now + WANTED_FOR * 2).is_empty());
    }
}
