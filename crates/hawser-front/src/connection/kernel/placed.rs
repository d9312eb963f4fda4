use std::time::Duration;

use hawser_capture::{Bytes, CapturedProgress};
use hawser_types::{ByteCount, Instant};

use super::super::Flow;

/// A connection that both the director and the kernel count.
#[derive(Debug)]
pub(super) struct KernelFlow {
    pub(super) flow: Flow,
    /// Bytes that the director knows of.
    known: Bytes,
    /// Time up to which the director knows the bytes.
    told: Instant,
    /// Whether the director knows that the connection was answered.
    is_connected: bool,
    /// Whether it is a flow of datagrams, whose first datagram back is the answer.
    is_datagrams: bool,
    /// Time since which the kernel does not know the connection.
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

    /// Records that the connection was answered, `after` its beginning and `ago` before `now`. The
    /// kernel reports an answer late, or only at the end.
    pub(super) fn connected(&mut self, now: Instant, after: Duration, ago: Duration) {
        if !std::mem::replace(&mut self.is_connected, true) {
            self.flow.connected_since(Some(after), ago);
            // The beginning was reported late, too.
            self.told = self.told.min(now - ago);
        }
    }

    /// Takes in the kernel's latest count; returns whether the connection continues. A connection
    /// that the kernel has not known for a while has ended, and its event was lost. The kernel also
    /// does not know a connection whose event is still to be read.
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

    /// Returns whether it is a TCP connection whose link is gone for good.
    pub(super) fn is_stranded(&self) -> bool {
        !self.is_datagrams && self.flow.stranded().is_set()
    }

    /// Records how many bytes the connection has moved in all.
    pub(super) fn moved(&mut self, now: Instant, moved: Bytes) {
        let since = std::mem::replace(&mut self.told, now);
        let is_answered = self.is_datagrams && moved.down > ByteCount::ZERO;
        if is_answered && !std::mem::replace(&mut self.is_connected, true) {
            // Without a latency: it would depend on the server as much as on the link.
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
            // The kernel does not report when the last datagram came. It may have been right after
            // the previous count, and must not vouch for a link that has fallen silent since.
            self.flow.heard(since);
        }
        self.flow.moved_since(since, up, down);
        // A socket that connects again counts from 0, and its end reports the sum.
        self.known.up = self.known.up.max(moved.up);
        self.known.down = self.known.down.max(moved.down);
    }
}

/// A flow that the kernel has not known for this long has ended: events are read far sooner.
const GONE_FOR: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use hawser_link::links::Link;
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
