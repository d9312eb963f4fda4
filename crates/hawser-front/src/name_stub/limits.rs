//! Bounds on applications' queries and connections in progress.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Places of queries that are being answered, and of connections that bring them.
#[derive(Debug)]
pub(super) struct Limits {
    questions: Places<QuestionKey>,
    connections: Places<SocketAddr>,
}

/// The socket that asks, and the number of the query.
type QuestionKey = (SocketAddr, u16);

impl Default for Limits {
    fn default() -> Self {
        Self {
            questions: Places::new(MAX_QUESTIONS),
            connections: Places::new(MAX_CONNECTIONS),
        }
    }
}

impl Limits {
    /// Takes a place for the query with this number from the socket at `from`; `None` if that query
    /// is being answered already, or if the socket has too many. If there are too many in all, the
    /// oldest query loses its place.
    pub(super) fn question(&self, from: SocketAddr, number: u16) -> Option<QuerySlot<QuestionKey>> {
        let of_socket = (from, 0)..=(from, u16::MAX);
        self.questions
            .take((from, number), &of_socket, MAX_OF_SOCKET)
    }

    /// Takes a place for a connection from the socket at `from`. If there are too many, the oldest
    /// one loses its place.
    pub(super) fn connection(&self, from: SocketAddr) -> Option<QuerySlot<SocketAddr>> {
        self.connections.take(from, &(from..=from), 1)
    }
}

/// A bounded number of places. When all are taken, a newcomer gets the oldest one: queries that are
/// answered at all are answered soon.
#[derive(Debug)]
struct Places<K> {
    taken: Arc<Mutex<Taken<K>>>,
    max: usize,
}

#[derive(Debug)]
struct Taken<K> {
    by_key: BTreeMap<K, (u64, oneshot::Sender<()>)>,
    by_age: BTreeMap<u64, K>,
    latest: u64,
}

/// A place, held until this is dropped.
#[derive(Debug)]
pub(super) struct QuerySlot<K: Copy + Ord> {
    taken: Arc<Mutex<Taken<K>>>,
    age: u64,
    key: K,
    lost: oneshot::Receiver<()>,
}

impl<K: Copy + Ord> Places<K> {
    fn new(max: usize) -> Self {
        let taken = Taken {
            by_key: BTreeMap::new(),
            by_age: BTreeMap::new(),
            latest: 0,
        };
        Self {
            taken: Arc::new(Mutex::new(taken)),
            max,
        }
    }

    fn take(&self, key: K, own: &RangeInclusive<K>, max_own: usize) -> Option<QuerySlot<K>> {
        let mut taken = self.taken.lock();
        let is_full = taken.by_key.range(own.clone()).count() >= max_own;
        if is_full || taken.by_key.contains_key(&key) {
            return None;
        }
        if taken.by_key.len() >= self.max
            && let Some((_, oldest)) = taken.by_age.pop_first()
        {
            taken.by_key.remove(&oldest);
        }
        let (sender, lost) = oneshot::channel();
        taken.latest += 1;
        let age = taken.latest;
        taken.by_key.insert(key, (age, sender));
        taken.by_age.insert(age, key);
        drop(taken);
        Some(QuerySlot {
            taken: Arc::clone(&self.taken),
            age,
            key,
            lost,
        })
    }
}

impl<K: Copy + Ord> QuerySlot<K> {
    /// Returns the result of `work`; `None` if the place is lost meanwhile.
    pub(super) async fn keep<T>(mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            _ = &mut self.lost => None,
        }
    }
}

impl<K: Copy + Ord> Drop for QuerySlot<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        // Otherwise the place was lost, and another holder may have the key.
        if taken.by_age.remove(&self.age).is_some() {
            taken.by_key.remove(&self.key);
        }
    }
}

/// Queries of all applications. Each takes one socket for the server that was asked, and some for
/// each link if that server is silent.
const MAX_QUESTIONS: usize = 512;
/// Of these, queries of one socket.
const MAX_OF_SOCKET: usize = 64;
const MAX_CONNECTIONS: usize = 128;

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn socket(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_question_that_is_asked_again_is_answered_once() {
        let limits = Limits::default();
        let first = limits.question(socket(1), 7);
        assert!(first.is_some() && limits.question(socket(1), 7).is_none());
        assert!(limits.question(socket(2), 7).is_some());
        drop(first);
        assert!(limits.question(socket(1), 7).is_some());
    }

    #[test]
    fn one_socket_does_not_take_all_places() {
        let limits = Limits::default();
        let ask = |number| limits.question(socket(1), number);
        let flood: Vec<_> = (0..1000).map_while(ask).collect();
        assert_eq!(flood.len(), MAX_OF_SOCKET);
        assert!(limits.question(socket(2), 0).is_some());
        drop(flood);
        assert!(ask(0).is_some());
    }

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let limits = Limits::default();
        let ask = |port| limits.question(socket(port), 0).unwrap();
        let mut all: Vec<_> = (1..=MAX_QUESTIONS as u16 + 1).map(ask).collect();
        let newest = all.pop().unwrap();
        let oldest = all.remove(0);
        // Its key is free, and its end takes no place from the next query.
        let again = ask(1);
        assert_eq!(oldest.keep(pending::<()>()).await, None);
        assert_eq!(limits.questions.taken.lock().by_key.len(), MAX_QUESTIONS);
        assert_eq!(again.keep(ready(1)).await, Some(1));
        assert_eq!(newest.keep(ready(2)).await, Some(2));
        drop(all);
        let taken = limits.questions.taken.lock();
        assert!(taken.by_key.is_empty() && taken.by_age.is_empty());
    }

    #[tokio::test]
    async fn connections_make_room_likewise() {
        let limits = Limits::default();
        let connect = |port| limits.connection(socket(port)).unwrap();
        let mut all: Vec<_> = (1..=MAX_CONNECTIONS as u16 + 1).map(connect).collect();
        assert_eq!(all.remove(0).keep(pending::<()>()).await, None);
        assert_eq!(all.remove(0).keep(ready(())).await, Some(()));
    }
}
