use std::time::Duration;

use hawser_types::Instant;

/// Stage of a session, and the times at which it looks after itself.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    stage: LifecycleStage,
    /// Time since when the session has had no channel.
    lonely_since: Option<Instant>,
    /// Time the session outlives its last channel by.
    survive: Duration,
    /// Time of the next look at channels with data in flight.
    look_at: Option<Instant>,
    /// The gateway has asked the client to go on in another session.
    going_away: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifecycleStage {
    Open,
    /// No new streams; the close command follows when everything is acknowledged.
    Closing {
        code: u32,
        told: bool,
    },
    Closed,
}

impl Lifecycle {
    /// An open session that has no channel yet.
    pub(crate) fn new(now: Instant, survive: Duration) -> Self {
        Self {
            stage: LifecycleStage::Open,
            lonely_since: Some(now),
            survive,
            look_at: None,
            going_away: false,
        }
    }

    /// True until the session is closed by either side.
    pub(crate) fn is_open(&self) -> bool {
        self.stage == LifecycleStage::Open
    }

    /// True if the session is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage == LifecycleStage::Closed
    }

    /// Returns the code of an orderly end that waits for the peer, and whether the peer was told.
    pub(crate) fn closing(&self) -> Option<(u32, bool)> {
        match self.stage {
            LifecycleStage::Closing { code, told } => Some((code, told)),
            _ => None,
        }
    }

    /// Begins an orderly end. True if the session was open.
    pub(crate) fn begin_to_close(&mut self, code: u32) -> bool {
        let was_open = self.is_open();
        if was_open {
            self.stage = LifecycleStage::Closing { code, told: false };
        }
        was_open
    }

    /// Notes that the peer is told of the orderly end.
    pub(crate) fn on_told(&mut self) {
        if let LifecycleStage::Closing { told, .. } = &mut self.stage {
            *told = true;
        }
    }

    /// Notes that the client is asked to go on in another session. True if it was not before, and
    /// the session is open.
    pub(crate) fn begin_to_go_away(&mut self) -> bool {
        let is_news = self.is_open() && !self.going_away;
        self.going_away |= is_news;
        is_news
    }

    /// True if the client is asked to go on in another session.
    pub(crate) fn is_going_away(&self) -> bool {
        self.going_away
    }

    /// Ends the session. True if it was not over.
    pub(crate) fn end(&mut self) -> bool {
        let ends = !self.is_closed();
        if ends {
            self.stage = LifecycleStage::Closed;
            self.look_at = None;
        }
        ends
    }

    /// Notes that there is a channel.
    pub(crate) fn on_channel(&mut self) {
        self.lonely_since = None;
    }

    /// Notes that the last channel is gone.
    pub(crate) fn on_last_channel_lost(&mut self, now: Instant) {
        self.lonely_since = Some(now);
    }

    /// True if the session has had no channel for longer than it survives that.
    pub(crate) fn is_abandoned(&self, now: Instant) -> bool {
        let is_long = |since| now.since(since) >= self.survive;
        !self.is_closed() && self.lonely_since.is_some_and(is_long)
    }

    /// Returns the time at which the session ends for want of channels.
    pub(crate) fn abandoned_at(&self) -> Option<Instant> {
        let since = self.lonely_since.filter(|_| !self.is_closed());
        since.map(|since| since + self.survive)
    }

    /// Looks after channels at `at`, unless a look is due already.
    pub(crate) fn look_by(&mut self, at: Instant) {
        self.look_at.get_or_insert(at);
    }

    /// Sets when to look after channels next; `None`: nothing is in flight.
    pub(crate) fn set_look(&mut self, at: Option<Instant>) {
        self.look_at = at;
    }

    /// Returns the time of the next look.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// True if it is time to look after channels.
    pub(crate) fn is_look_due(&self, now: Instant) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }
}
