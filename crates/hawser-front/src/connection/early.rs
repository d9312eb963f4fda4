//! What a program says on a connection that is still being made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// What a program has said on a connection that it takes for established while that is still being
/// made, as redirected ones are. A stream may carry it along with its opening, so that it is at the
/// destination a round trip earlier.
///
/// It leaves only once it is sure that no other way is tried: a destination must not hear it twice.
#[derive(Clone, Debug, Default)]
pub struct EarlyData(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    said: Vec<u8>,
    /// How much of what was said has left.
    left: usize,
    may_leave: bool,
}

impl EarlyData {
    /// How many bytes more it takes.
    pub(crate) fn room(&self) -> usize {
        let state = self.lock();
        MAX_EARLY.saturating_sub(state.left + state.said.len())
    }

    /// The program has said more.
    pub(crate) fn put(&self, bytes: &[u8]) {
        self.lock().said.extend_from_slice(bytes);
        self.0.changed.notify_one();
    }

    /// From now on only one way is tried, and it may take what was said.
    pub(crate) fn release(&self) {
        self.lock().may_leave = true;
        self.0.changed.notify_one();
    }

    /// Waits for something that may leave, and takes it. Cancel safe.
    pub(crate) async fn next(&self) -> Bytes {
        loop {
            let changed = self.0.changed.notified();
            if let Some(bytes) = self.take() {
                return bytes;
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<Bytes> {
        let mut state = self.lock();
        if !state.may_leave || state.said.is_empty() {
            return None;
        }
        state.left += state.said.len();
        Some(std::mem::take(&mut state.said).into())
    }

    /// How many bytes have left.
    pub(crate) fn left(&self) -> usize {
        self.lock().left
    }

    /// What has not left, which is then the caller's to send.
    pub(crate) fn rest(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().said)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of the same connection.
impl PartialEq for EarlyData {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for EarlyData {}

/// A request with all its headers. More waits until the connection stands, as without this.
const MAX_EARLY: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn it_leaves_once_and_only_when_it_may() {
        let early = EarlyData::default();
        early.put(b"GET ");
        assert!(early.next().now_or_never().is_none());
        let (released, said) = (early.clone(), early.clone());
        tokio::spawn(async move { released.release() });
        assert_eq!(early.next().await, "GET ");
        assert!(early.next().now_or_never().is_none());
        tokio::spawn(async move { said.put(b"/") });
        assert_eq!(early.next().await, "/");
        early.put(b"late");
        assert_eq!(early.left(), 5);
        assert_eq!(early.room(), MAX_EARLY - 9);
        assert_eq!(early.rest(), b"late");
        assert!(early.next().now_or_never().is_none());
    }
}
