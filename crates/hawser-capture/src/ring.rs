//! Reading of what the kernel's programs report.

use std::io;

use tokio::io::unix::AsyncFd;

use crate::sys::Ring;

/// Rows of a ring, in order.
#[derive(Debug)]
pub(crate) struct Rows(AsyncFd<Ring>);

impl Rows {
    pub(crate) fn watch(ring: Ring) -> io::Result<Self> {
        ring.watch().map(Self)
    }

    /// Waits for the next row that `read` converts. It is cancel-safe.
    pub(crate) async fn next<T>(&mut self, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        loop {
            let mut guard = self.0.readable_mut().await?;
            while let Some(item) = guard.get_inner_mut().next() {
                if let Some(event) = read(&item) {
                    return Ok(event);
                }
            }
            guard.clear_ready();
        }
    }

    /// Returns the next row that `read` converts, if there is one already.
    pub(crate) fn try_next<T>(&mut self, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        while let Some(item) = self.0.get_mut().next() {
            if let Some(event) = read(&item) {
                return Some(event);
            }
        }
        None
    }
}
