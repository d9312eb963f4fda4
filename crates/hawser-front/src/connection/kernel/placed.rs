use std::time::Duration;

use hawser_capture::{Bytes, CapturedProgress};
use hawser_types::{ByteCount, Instant};

use super::super::Flow;

/// A connection on both books.
#[derive(Debug)]
pub(super) struct KernelFlow {
    pub(super) flow: Flow,
    /// What the director knows that it has moved.
    known: Bytes,
    /// Until when that is known.
    told: Instant,
    /// Whether the director knows that it was answered.
    is_connected: bool,
    /// Datagrams: the first that comes back is the answer.
    is_datagrams: bool,
    /// Since when the kernel knows nothing of it.
    missing: Option<Instant>,
}

impl KernelFlow {
    pub(super) fn new(flow: Flow, is_datagrams: bool, now: Instant) -> Self {
        Self {
            flow,
            known: Bytes::default(),
            told: now,
            is_connected: false,
            is_datagrams,
            missing: None,
        }
    }

    /// It was answered after so long, and this long ago. The kernel tells of it later, or only at
    /// the end.
    pub(super) fn connected(&mut self, now: Instant, after: Duration, ago: Duration) {
        if !std::mem::replace(&mut self.is_connected, true) {
            self.flow.connected_since(Some(after), ago);
            // Its beginning was heard of late, too.
            self.told = self.told.min(now - ago);
        }
    }

    /// Takes in how far it has come by what the kernel has just counted, and gives whether it goes
    /// on. What the kernel has known nothing of for a while has ended, and the event that said so
    /// was lost; it knows nothing of those either whose event is still to be read.
    pub(super) fn goes_on(&mut self, progress: Option<CapturedProgress>, now: Instant) -> bool {
        let Some(progress) = progress else {
            return now.since(*self.missing.get_or_insert(now)) < GONE_FOR;
        };
        self.missing = None;
        self.advance(&progress, now);
        true
    }

    fn advance(&mut self, progress: &CapturedProgress, now: Instant) {
        if let Some(segments) = progress.segments {
            self.flow.sent(segments);
        }
        if progress.moved != self.known
            && let Some(ago) = progress.heard
        {
            self.flow.heard(now - ago);
        }
        self.moved(now, progress.moved);
    }

    /// True for a TCP connection whose link is gone for good.
    pub(super) fn is_stranded(&self) -> bool {
        !self.is_datagrams && self.flow.stranded().is_set()
    }

    /// It has moved so much in all.
    pub(super) fn moved(&mut self, now: Instant, moved: Bytes) {
        let since = std::mem::replace(&mut self.told, now);
        let is_answered = self.is_datagrams && moved.down > ByteCount::ZERO;
        if is_answered && !std::mem::replace(&mut self.is_connected, true) {
            // The time that the answer took says as much about the server as about the link.
            self.flow.connected_since(None, now.since(since));
        }
        if moved == self.known {
            return;
        }
        let more = |now: ByteCount, then: ByteCount| {
            ByteCount::new(now.as_u64().saturating_sub(then.as_u64()))
        };
        let (up, down) = (
            more(moved.up, self.known.up),
            more(moved.down, self.known.down),
        );
        if self.is_datagrams && down > ByteCount::ZERO {
            // The kernel does not tell when the last of them came: it may have been right after the
            // count before, and must not vouch for a link that has fallen silent since.
            self.flow.heard(since);
        }
        self.flow.moved_since(since, up, down);
        // A socket that connects again counts from 0 again, and its end tells the sum.
        self.known.up = self.known.up.max(moved.up);
        self.known.down = self.known.down.max(moved.down);
    }
}

/// Far longer than events wait to be read.
const GONE_FOR: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use hawser_net::links::Link;
    use hawser_sched::connection::ConnectionPolicy;

    use super::super::super::SharedDirector;
    use super::super::super::testing::link;
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(10 + seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kernel_has_forgotten_is_on_no_link_any_more() {
        let director = SharedDirector::new(ConnectionPolicy::default(), Vec::new());
        director.set_links(&[Link::clone(&link("a"))]);
        let decision = director.decide_links(&Default::default());
        let flow = director.open(&decision, link("a").index);
        let mut places = vec![KernelFlow::new(flow, false, at(0))];
        let mut counted = |progress: Option<CapturedProgress>, now: Instant| {
            places.retain_mut(|placed| placed.goes_on(progress, now));
            director.with(|director, _| director.open_count())
        };
        let there = CapturedProgress {
            moved: Bytes::default(),
            heard: None,
            segments: None,
        };
        assert_eq!(counted(None, at(0)), 1, "it may not have been counted yet");
        assert_eq!(counted(Some(there), at(4)), 1);
        assert_eq!(counted(Some(there), at(100)), 1, "however long it lasts");
        assert_eq!(counted(None, at(101)), 1);
        assert_eq!(counted(None, at(105)), 1, "its end may be still to be read");
        assert_eq!(counted(None, at(106)), 0);
    }
}
