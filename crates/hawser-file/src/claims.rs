//! Exclusive rights of transfers to write names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard};
use tokio::time::timeout;

use super::entry_path::EntryPath;
use super::error::ReceiveError;
use super::wire::{Identity, Offer};

/// The names of files that are being received into one directory.
///
/// A sender that lost its session begins again while the receiver may still wait for the old
/// transfer. So a new transfer of the very same file takes over from the one in progress; a
/// transfer of another file with the same name is rejected.
#[derive(Debug, Default)]
pub(super) struct Claims {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_name: HashMap<String, Slot>,
    next_generation: u64,
}

#[derive(Debug)]
struct Slot {
    generation: u64,
    identity: Identity,
    superseded: Arc<Notify>,
    lock: Arc<AsyncMutex<()>>,
}

/// The right to write one name, until dropped.
#[derive(Debug)]
pub(super) struct Claim {
    place: ClaimedName,
    lock: OwnedMutexGuard<()>,
}

/// An entry in the table: removed when dropped, unless another transfer took it over.
#[derive(Debug)]
struct ClaimedName {
    claims: Arc<Claims>,
    name: String,
    generation: u64,
    superseded: Arc<Notify>,
}

impl Claims {
    /// Claims the offer's name. Waits until a superseded transfer has stored its bytes.
    pub(super) async fn claim(self: &Arc<Self>, offer: &Offer) -> Result<Claim, ReceiveError> {
        let busy = || ReceiveError::Busy {
            name: offer.path.to_string(),
        };
        let (place, lock) = self.enter(&offer.path, offer.identity()).ok_or_else(busy)?;
        match timeout(HAND_OVER_TIMEOUT, lock.lock_owned()).await {
            Ok(lock) => Ok(Claim { place, lock }),
            Err(_) => Err(busy()),
        }
    }

    fn enter(
        self: &Arc<Self>,
        path: &EntryPath,
        identity: Identity,
    ) -> Option<(ClaimedName, Arc<AsyncMutex<()>>)> {
        // The name of the part file: two transfers of this name would both write that file.
        let mut name: String = path.folders().iter().map(|it| format!("{it}/")).collect();
        name.push_str(&path.name().part());
        let mut slots = self.slots.lock();
        let generation = slots.next_generation;
        slots.next_generation += 1;
        let superseded = Arc::new(Notify::new());
        let lock = match slots.by_name.get(&name) {
            Some(slot) if slot.identity != identity => return None,
            Some(slot) => {
                slot.superseded.notify_one();
                Arc::clone(&slot.lock)
            }
            None => Arc::default(),
        };
        let slot = Slot {
            generation,
            identity,
            superseded: Arc::clone(&superseded),
            lock: Arc::clone(&lock),
        };
        slots.by_name.insert(name.clone(), slot);
        let place = ClaimedName {
            claims: Arc::clone(self),
            name,
            generation,
            superseded,
        };
        Some((place, lock))
    }
}

impl Claim {
    /// Returns the notification that another transfer takes over.
    pub(super) fn superseded(&self) -> Arc<Notify> {
        Arc::clone(&self.place.superseded)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        tracing::trace!(name = self.place.name, lock = ?self.lock, "claim released");
    }
}

impl Drop for ClaimedName {
    fn drop(&mut self) {
        let mut slots = self.claims.slots.lock();
        if let Some(slot) = slots.by_name.get(&self.name)
            && slot.generation == self.generation
        {
            slots.by_name.remove(&self.name);
        }
    }
}

/// How long a superseded transfer may take to store its bytes and release the name.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use hawser_types::ByteCount;

    use super::*;
    use crate::wire::{FileTime, Kind};

    fn offer(name: &str, size: u64) -> Offer {
        Offer {
            path: EntryPath::new(name).expect("a good name"),
            kind: Kind::File,
            size: ByteCount::new(size),
            modified: FileTime {
                seconds: 0,
                nanoseconds: 0,
            },
            mode: 0o644,
            guard: [0; 32],
        }
    }

    #[tokio::test]
    async fn the_same_file_takes_over_when_the_old_transfer_lets_go() {
        let claims = Arc::new(Claims::default());
        let old = claims.claim(&offer("a", 1)).await.expect("no claim yet");
        let superseded = old.superseded();
        let waiting = tokio::spawn({
            let claims = Arc::clone(&claims);
            async move { claims.claim(&offer("a", 1)).await }
        });
        superseded.notified().await;
        drop(old);
        let new = waiting.await.expect("no panic").expect("taken over");
        assert!(
            matches!(
                claims.claim(&offer("a", 2)).await,
                Err(ReceiveError::Busy { .. })
            ),
            "the old claim's end must not have freed the new one's name"
        );
        drop(new);
        assert!(claims.claim(&offer("a", 2)).await.is_ok());
    }

    #[tokio::test]
    async fn another_file_of_the_same_name_is_turned_away() {
        let claims = Arc::new(Claims::default());
        let _first = claims.claim(&offer("a", 1)).await.expect("no claim yet");
        assert!(matches!(
            claims.claim(&offer("a", 2)).await,
            Err(ReceiveError::Busy { .. })
        ));
        assert!(claims.claim(&offer("b", 2)).await.is_ok());
        assert!(claims.claim(&offer("folder/a", 2)).await.is_ok());
    }
}
