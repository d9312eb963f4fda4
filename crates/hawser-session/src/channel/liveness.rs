use hawser_types::{ByteCount, Instant};

/// A copy of a chunk that shows whether a link still crawls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// When the channel was given it.
    pub(crate) at: Instant,
    /// Its payload.
    pub(crate) bytes: ByteCount,
    /// [`Outbound::payload`](super::Outbound::payload) of the channel once the copy was sent.
    pub(crate) payload: u64,
}

/// The session's conclusion from a channel's silence, and its reaction.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    suspect_since: Option<Instant>,
    /// It is suspect as a channel of a link that crawls, however often it is heard.
    crawls: bool,
    /// The latest trial.
    trial: Option<Trial>,
    /// Time when a channel of the same link died. Until it is heard again, this one is suspect.
    doubted_at: Option<Instant>,
    /// Time when chunks are copied that the peer's kernel has and its session may not have.
    copy_rest_at: Option<Instant>,
    heartbeat_due: bool,
    heartbeat_at: Option<Instant>,
}

impl Liveness {
    /// True if the channel is silent against expectation, or its link crawls.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect_since.is_some()
    }

    /// Returns the time when the channel became suspect.
    pub(crate) fn suspect_since(&self) -> Option<Instant> {
        self.suspect_since
    }

    /// Makes the channel suspect.
    pub(crate) fn suspect(&mut self, now: Instant) {
        self.suspect_since = Some(now);
    }

    /// Notes that its link crawls: see `Channels::judges_crawling`.
    pub(crate) fn crawl(&mut self) {
        self.crawls = true;
    }

    /// True if it is suspect as a channel of a link that crawls.
    pub(crate) fn crawls(&self) -> bool {
        self.crawls
    }

    /// Notes a trial.
    pub(crate) fn try_out(&mut self, trial: Trial) {
        self.trial = Some(trial);
    }

    /// Returns the latest trial.
    pub(crate) fn trial(&self) -> Option<Trial> {
        self.trial
    }

    /// Ends a suspicion. Returns since when it was held, and whether it was of the whole link.
    pub(crate) fn recover(&mut self, now: Instant) -> (Instant, bool) {
        self.copy_rest_at = None;
        let crawled = std::mem::take(&mut self.crawls);
        let since = self.suspect_since.take().unwrap_or(now);
        let was_doubted = self.doubted_at.take().is_some();
        (since, crawled || was_doubted)
    }

    /// Asks for a sign of life from now on, since another channel of the link died.
    pub(crate) fn doubt(&mut self, now: Instant) {
        self.doubted_at = Some(now);
    }

    /// True if the link is in doubt, and the channel was not heard since. `heard`: when it last
    /// was.
    pub(crate) fn is_in_doubt(&self, heard: Option<Instant>) -> bool {
        self.doubted_at.is_some_and(|at| heard <= Some(at))
    }

    /// Copies what the peer's kernel has at `at`, unless the channel recovers before.
    pub(crate) fn copy_rest_at(&mut self, at: Instant) {
        self.copy_rest_at = Some(at);
    }

    /// True once, when it is time to copy what the peer's kernel has.
    pub(crate) fn take_copy_rest(&mut self, now: Instant) -> bool {
        let due = self.copy_rest_at.is_some_and(|at| at <= now);
        if due {
            self.copy_rest_at = None;
        }
        due
    }

    /// Sends a heartbeat with the next record.
    pub(crate) fn beat(&mut self, now: Instant) {
        self.heartbeat_at = Some(now);
        self.heartbeat_due = true;
    }

    /// True once, if a heartbeat is due.
    pub(crate) fn take_heartbeat(&mut self) -> bool {
        std::mem::take(&mut self.heartbeat_due)
    }

    /// Returns the time of the latest heartbeat.
    pub(crate) fn heartbeat_at(&self) -> Option<Instant> {
        self.heartbeat_at
    }
}
