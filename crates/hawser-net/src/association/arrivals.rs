//! Hands on packets of the peer's tunnel.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Takes packets out of the vector. Must not wait.
pub(crate) type PacketTaker = dyn Fn(&mut Vec<Bytes>) + Send + Sync;

/// Hands on the packets of one association.
///
/// The thread that brings a few packets hands them on at once, so that a packet that arrives at an
/// idle tunnel needs no other thread; a task hands on larger numbers. One thread at a time does
/// either, which keeps the order. No lock is held that the taker might need: the taker may send
/// packets over the same association.
pub(super) struct Arrivals {
    /// Notified when packets wait that no thread hands on, or when no more packets will come.
    pub(super) changed: Notify,
    turn: AtomicU8,
    taker: Mutex<Option<Arc<PacketTaker>>>,
    /// Memory of the last batch.
    batch: Mutex<Vec<Bytes>>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            changed: Notify::new(),
            turn: AtomicU8::new(IDLE),
            taker: Mutex::default(),
            batch: Mutex::default(),
        }
    }

    /// Hands packets to `taker` from now on; with `None`, packets wait.
    pub(super) fn set_taker(&self, taker: Option<Arc<PacketTaker>>) {
        *self.taker.lock() = taker;
    }

    /// Hands on all waiting packets, which `take` puts into its argument. If another thread is
    /// handing on packets, that thread looks once more instead.
    pub(super) fn hand_on(&self, take: impl Fn(&mut Vec<Bytes>)) {
        let Some(taker) = self.taker() else {
            return;
        };
        if !self.begin() {
            return;
        }
        let mut batch = self.batch.lock();
        for _ in 0..MAX_ROUNDS {
            take(&mut batch);
            if !batch.is_empty() {
                taker(&mut batch);
                batch.clear();
            }
            if self.end() {
                return;
            }
        }
        // Other tasks on this thread have their turn; then the task of the packets goes on.
        self.turn.store(IDLE, Ordering::Release);
        self.changed.notify_one();
    }

    fn taker(&self) -> Option<Arc<PacketTaker>> {
        self.taker.lock().clone()
    }

    /// Returns whether it is the turn of this thread. Otherwise the thread whose turn it is will
    /// look again.
    fn begin(&self) -> bool {
        let next = |turn| Some(if turn == IDLE { BUSY } else { AGAIN });
        let before = self
            .turn
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before == Ok(IDLE)
    }

    /// Returns whether the turn is over: no other thread has brought packets meanwhile.
    fn end(&self) -> bool {
        let next = |turn| Some(if turn == AGAIN { BUSY } else { IDLE });
        let before = self
            .turn
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before == Ok(BUSY)
    }
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arrivals")
    }
}

/// No thread hands packets on.
const IDLE: u8 = 0;
/// A thread hands packets on.
const BUSY: u8 = 1;
/// The thread that hands packets on has to look again before it ends.
const AGAIN: u8 = 2;
/// Consecutive rounds of one thread while others bring more packets.
const MAX_ROUNDS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Weak;

    use super::*;

    fn packet(number: usize) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    #[test]
    fn packets_of_several_threads_are_handed_on_once_and_in_the_order_of_the_queue() {
        const EACH: usize = 5000;
        let (arrivals, queue) = (Arrivals::new(), Mutex::new((0, VecDeque::new())));
        let handed_on = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&handed_on);
        arrivals.set_taker(Some(Arc::new(move |batch: &mut Vec<Bytes>| {
            taken.lock().append(batch);
        })));
        let take = |batch: &mut Vec<Bytes>| batch.extend(queue.lock().1.drain(..));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        {
                            let mut queue = queue.lock();
                            let number = queue.0;
                            queue.1.push_back(packet(number));
                            queue.0 += 1;
                        }
                        arrivals.hand_on(take);
                    }
                });
            }
        });
        // Packets left after the last round are for the task that was notified.
        arrivals.hand_on(take);
        let expected: Vec<_> = (0..4 * EACH).map(packet).collect();
        assert_eq!(*handed_on.lock(), expected);
    }

    #[test]
    fn a_taker_that_brings_packets_itself_is_called_again_after_it_returns() {
        let arrivals = Arc::new(Arrivals::new());
        let queue = Arc::new(Mutex::new(vec![packet(1)]));
        let (own, of_taker): (Weak<Arrivals>, _) = (Arc::downgrade(&arrivals), Arc::clone(&queue));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let counted = Arc::clone(&calls);
        arrivals.set_taker(Some(Arc::new(move |batch: &mut Vec<Bytes>| {
            counted.lock().push(batch.clone());
            if batch[0] == packet(1) {
                of_taker.lock().push(packet(2));
                let queue = Arc::clone(&of_taker);
                let arrivals = own.upgrade().unwrap();
                arrivals.hand_on(move |more| more.append(&mut queue.lock()));
                assert_eq!(counted.lock().len(), 1);
            }
        })));
        arrivals.hand_on(|batch| batch.append(&mut queue.lock()));
        let expected = [vec![packet(1)], vec![packet(2)]];
        assert_eq!(*calls.lock(), expected);
    }
}
