//! Data that an application sends on a connection that is still being made.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Data that an application sends while its connection is still being made, because it takes the
/// connection for established, as with redirected connections. A stream may carry the data along
/// with its opening, so that it reaches the destination a round trip earlier.
///
/// The data leaves only once no other way will be tried: a destination must not receive it twice.
#[derive(Clone, Debug, Default)]
pub struct EarlyData(Arc<EarlyState>);

#[derive(Debug, Default)]
struct EarlyState {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    said: Vec<u8>,
    /// Number of bytes that have left.
    left: usize,
    may_leave: bool,
}

impl EarlyData {
    /// Returns how many more bytes fit.
    pub(crate) fn room(&self) -> usize {
        let state = self.0.state.lock();
        MAX_EARLY.saturating_sub(state.left + state.said.len())
    }

    /// Adds bytes that the application has sent.
    pub(crate) fn put(&self, bytes: &[u8]) {
        self.0.state.lock().said.extend_from_slice(bytes);
        self.0.changed.notify_one();
    }

    /// Allows the data to leave: from now on only one way is tried.
    pub(crate) fn release(&self) {
        self.0.state.lock().may_leave = true;
        self.0.changed.notify_one();
    }

    /// Waits for data that may leave, and takes it. Cancel safe.
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
        let mut state = self.0.state.lock();
        if !state.may_leave || state.said.is_empty() {
            return None;
        }
        state.left += state.said.len();
        Some(std::mem::take(&mut state.said).into())
    }

    /// Returns how many bytes have left.
    pub(crate) fn left(&self) -> usize {
        self.0.state.lock().left
    }

    /// Takes the data that has not left; the caller must send it.
    pub(crate) fn rest(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.state.lock().said)
    }
}

/// Equal if both belong to the same connection.
impl PartialEq for EarlyData {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for EarlyData {}

/// Room for a request with all its headers. Further data waits until the connection is made.
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
