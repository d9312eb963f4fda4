use hawser_director::Progress;
use hawser_types::{ByteCount, Instant};
use parking_lot::Mutex;

use super::stranded::Stranded;

/// Bytes that a connection has moved so far, counted without the director's lock.
///
/// A lock of its own keeps the bytes consistent with the time since which they were moved. The
/// director takes this lock about twice a second.
#[derive(Debug, Default)]
pub(super) struct Counters {
    progress: Mutex<Progress>,
    stranded: Stranded,
}

impl Counters {
    /// Adds bytes that were sent and received.
    pub(super) fn add(&self, up: ByteCount, down: ByteCount) {
        add(&mut self.progress.lock(), up, down);
    }

    /// Adds bytes that were moved after `since`. Keeps an earlier `since` of bytes that the
    /// director has not taken yet.
    pub(super) fn add_since(&self, since: Instant, up: ByteCount, down: ByteCount) {
        let mut progress = self.progress.lock();
        progress.since = progress.since.or(Some(since));
        add(&mut progress, up, down);
    }

    /// Records the time at which a packet of the far end arrived.
    pub(super) fn set_heard(&self, at: Instant) {
        self.progress.lock().heard = Some(at);
    }

    /// Returns the progress so far, and clears `since`: the next progress begins a new span.
    pub(super) fn take(&self) -> Progress {
        let mut progress = self.progress.lock();
        let taken = *progress;
        progress.since = None;
        taken
    }

    /// Returns the flag that is set when the connection's link is gone.
    pub(super) const fn stranded(&self) -> &Stranded {
        &self.stranded
    }
}

fn add(progress: &mut Progress, up: ByteCount, down: ByteCount) {
    let [sent, received] = progress.moved;
    progress.moved = [sent + up, received + down];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_come_without_the_time_since_which_they_were_moved() {
        let (counters, one) = (Counters::default(), ByteCount::new(1));
        let total = ByteCount::new(100_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 1..=total.as_u64() {
                    counters.add_since(Instant::from_nanos(turn), one, ByteCount::ZERO);
                }
            });
            let mut before = ByteCount::ZERO;
            while before < total {
                let progress = counters.take();
                let [sent, _] = progress.moved;
                // The first of the new bytes was moved just after the previous ones.
                let expected = Instant::from_nanos(before.as_u64() + 1);
                assert_eq!(progress.since, (sent > before).then_some(expected));
                before = sent;
            }
        });
    }
}
