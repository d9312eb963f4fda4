//! What programs may have in flight.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Questions that are being answered, and connections that bring them.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits(Arc<Mutex<InFlight>>);

#[derive(Debug, Default)]
struct InFlight {
    /// By the socket that asks and the number of the question.
    questions: BTreeSet<(SocketAddr, u16)>,
    connections: usize,
}

/// A question's place, until this is dropped.
#[derive(Debug)]
pub(super) struct Question {
    limits: Limits,
    key: (SocketAddr, u16),
}

/// A connection's place, until this is dropped.
#[derive(Debug)]
pub(super) struct Connection(Limits);

impl Limits {
    /// A place for the question with this number from the socket at `from`; none for one that is
    /// being answered already, and for one too many.
    pub(super) fn take(&self, from: SocketAddr, number: u16) -> Option<Question> {
        let mut inner = self.lock();
        let key = (from, number);
        let of_socket = inner.questions.range((from, 0)..=(from, u16::MAX));
        let is_full = inner.questions.len() >= MAX_QUESTIONS || of_socket.count() >= MAX_OF_SOCKET;
        if is_full || !inner.questions.insert(key) {
            return None;
        }
        let limits = self.clone();
        Some(Question { limits, key })
    }

    /// A place for a connection.
    pub(super) fn connect(&self) -> Option<Connection> {
        let mut inner = self.lock();
        if inner.connections >= MAX_CONNECTIONS {
            return None;
        }
        inner.connections += 1;
        Some(Connection(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.limits.lock().questions.remove(&self.key);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.lock().connections -= 1;
    }
}

/// Questions of all programs. Each takes one socket for the server that was asked, and some for
/// each link if that is silent.
const MAX_QUESTIONS: usize = 512;
/// Of them, those of one socket.
const MAX_OF_SOCKET: usize = 64;
const MAX_CONNECTIONS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_question_that_is_asked_again_is_answered_once() {
        let limits = Limits::default();
        let first = limits.take(socket(1), 7);
        assert!(first.is_some() && limits.take(socket(1), 7).is_none());
        assert!(limits.take(socket(2), 7).is_some());
        drop(first);
        assert!(limits.take(socket(1), 7).is_some());
    }

    #[test]
    fn one_socket_does_not_take_all_places() {
        let limits = Limits::default();
        let flood: Vec<_> = (0..1000)
            .map_while(|id| limits.take(socket(1), id))
            .collect();
        assert_eq!(flood.len(), MAX_OF_SOCKET);
        assert!(limits.take(socket(2), 0).is_some());
        let others = (2..1000).map(|port| limits.take(socket(port), 0));
        let others: Vec<_> = others.flatten().collect();
        assert_eq!(flood.len() + others.len(), MAX_QUESTIONS);
        drop(flood);
        assert!(limits.take(socket(1), 0).is_some());
    }

    #[test]
    fn connections_are_counted() {
        let limits = Limits::default();
        let all: Vec<_> = std::iter::from_fn(|| limits.connect()).take(1000).collect();
        assert_eq!(all.len(), MAX_CONNECTIONS);
        drop(all);
        assert!(limits.connect().is_some());
    }
}
