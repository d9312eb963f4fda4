//! Tasks that end with their owner.

use tokio::task::AbortHandle;

/// A task that is aborted when this is dropped.
pub(super) struct Task(AbortHandle);

impl Task {
    pub(super) fn spawn(run: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(run).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
