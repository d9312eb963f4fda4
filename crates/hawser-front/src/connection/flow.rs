use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_path::Segments;
use hawser_types::{ByteCount, Instant, LinkIndex};

use super::Director;
use crate::transport::DialError;

/// A connection on a link, as the [`Director`] counts it.
///
/// While it lives, its link is charged with what it has still to carry; dropping it gives the charge
/// back. One that was connected also teaches what connections of its kind need.
#[derive(Debug)]
pub struct Flow {
    director: Director,
    number: u64,
    link: LinkIndex,
    moved: Arc<Moved>,
}

/// What a connection has moved so far.
#[derive(Debug, Default)]
pub(super) struct Moved {
    up: AtomicU64,
    down: AtomicU64,
    /// When the far end was last heard of, where that is known; 0 where it is not.
    heard: AtomicU64,
    /// After when what was not yet read was moved; 0 where that is after it was last read.
    since: AtomicU64,
}

impl Flow {
    pub(super) const fn new(
        director: Director,
        number: u64,
        link: LinkIndex,
        moved: Arc<Moved>,
    ) -> Self {
        Self {
            director,
            number,
            link,
            moved,
        }
    }

    /// The link that it is on.
    pub const fn link(&self) -> LinkIndex {
        self.link
    }

    /// The far end has accepted the connection. `latency`: how long that took, where that was
    /// measured.
    pub fn connected(&self, latency: Option<Duration>) {
        self.connected_since(latency, Duration::ZERO);
    }

    /// The same for one whose acceptance is only heard of now and was so long ago, so that what it
    /// has moved since is not taken for a moment's work.
    pub fn connected_since(&self, latency: Option<Duration>, ago: Duration) {
        self.director.handle_connected(self.number, latency, ago);
    }

    /// The far end has refused the connection, or there is no way to it.
    pub(crate) fn failed(&self, error: DialError) {
        self.director.note_refused(self.number, error);
    }

    /// It has moved so many bytes more.
    pub fn moved(&self, up: ByteCount, down: ByteCount) {
        self.moved.up.fetch_add(up.as_u64(), Ordering::Relaxed);
        self.moved.down.fetch_add(down.as_u64(), Ordering::Relaxed);
    }

    /// The same where it is heard of late: it was moved after `since`.
    pub(super) fn moved_since(&self, since: Instant, up: ByteCount, down: ByteCount) {
        let (since, order) = (since.as_nanos(), Ordering::Relaxed);
        // What is not read yet may have been moved before.
        let _ = self.moved.since.compare_exchange(0, since, order, order);
        self.moved(up, down);
    }

    /// A packet of the far end came at this time, or later. For one whose bytes are heard of late.
    pub(super) fn heard(&self, at: Instant) {
        self.moved.heard.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// It has sent so many segments since its beginning, and some of them again.
    pub fn sent(&self, segments: Segments) {
        self.director.handle_segments(self.number, segments);
    }

    /// The kernel's round-trip time of it.
    pub fn round_trip(&self, rtt: Duration) {
        self.director.handle_round_trip(self.link, rtt);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.director.handle_end(self.number);
    }
}

impl Moved {
    /// Sent and received.
    pub(super) fn read(&self) -> [ByteCount; 2] {
        let read = |counter: &AtomicU64| ByteCount::new(counter.load(Ordering::Relaxed));
        [read(&self.up), read(&self.down)]
    }

    pub(super) fn heard(&self) -> Option<Instant> {
        let at = self.heard.load(Ordering::Relaxed);
        (at != 0).then(|| Instant::from_nanos(at))
    }

    /// After when what is read now was moved, where it is not after it was last read.
    pub(super) fn take_since(&self) -> Option<Instant> {
        let at = self.since.swap(0, Ordering::Relaxed);
        (at != 0).then(|| Instant::from_nanos(at))
    }
}
