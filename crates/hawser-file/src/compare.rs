//! Hashing of an existing file while the sender's checksum is awaited.

use std::fs::File;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::content::{BlockGrid, BlockHash, HASH_BUFFER_BYTES, hash_block};

/// Begins at once to hash every block of `file`; `None` if the file cannot be read.
///
/// Dropping the future ends the work at the next block.
pub(super) fn hash_whole(
    file: File,
    grid: BlockGrid,
) -> impl Future<Output = Option<Vec<BlockHash>>> {
    let stop = StopOnDrop(Arc::default());
    let stopped = Arc::clone(&stop.0);
    let work = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; HASH_BUFFER_BYTES];
        (0..grid.count())
            .take_while(|_| !stopped.load(Ordering::Relaxed))
            .map(|index| hash_block(&file, grid, index, &mut buffer).ok())
            .collect()
    });
    async move {
        let _stop = stop;
        work.await.ok().flatten()
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
