use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::sctp::{Chunk, Tsn};

use crate::path::silence_of;

/// How an association ends without losing anything (RFC 9260 §9.2).
///
/// The association tells what happens; afterwards it asks [`Self::poll_chunk`] until there is
/// nothing more, and [`Self::poll_timeout`] for when to wake up.
///
/// | told | when |
/// |---|---|
/// | [`Self::start`] | the application sends nothing more |
/// | [`Self::on_settled`] | nothing waits to be sent or acknowledged; any number of times |
/// | [`Self::on_shutdown`] … | a chunk of that name has come; the caller reads the acknowledgement in a SHUTDOWN by itself, before |
/// | [`Self::on_data`] | a packet with DATA has been read |
#[derive(Debug)]
pub(crate) struct Shutdown {
    stage: Stage,
    /// A chunk is due.
    due: Option<Due>,
    /// T2-shutdown.
    retransmit_at: Option<Instant>,
    /// T5-shutdown-guard.
    guard_at: Option<Instant>,
    /// T2 has expired so often in a row …
    expired: u32,
    /// … since what was asked first was not answered …
    asked_at: Instant,
    /// … at this RTO.
    rto: Duration,
    limits: ShutdownLimits,
}

/// How patient a shutdown is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShutdownLimits {
    /// RTO.Max.
    pub(crate) rto_max: Duration,
    /// Association.Max.Retrans.
    pub(crate) max_retransmissions: u32,
}

/// What the association does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownNews {
    /// Nothing.
    Nothing,
    /// The peer sends nothing more, and waits for what is under way: new messages are refused.
    PeerClosing,
    /// The chunk that went out last was not answered: the path that it took counts a time-out, and
    /// the next one takes another path where there is one.
    TimedOut,
    /// It is over, and everything has arrived.
    Complete,
    /// The peer does not end it: abort.
    GaveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Pending,
    Sent,
    Received,
    AckSent,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Shutdown,
    Acknowledgement,
    Complete,
}

impl Shutdown {
    /// Nobody wants to end it yet.
    pub(crate) fn new(limits: ShutdownLimits) -> Self {
        Self {
            stage: Stage::Open,
            due: None,
            retransmit_at: None,
            guard_at: None,
            expired: 0,
            asked_at: Instant::ZERO,
            rto: Duration::ZERO,
            limits,
        }
    }

    /// Whether new messages are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether a SHUTDOWN ACK is on its way: from here an association does not start anew.
    pub(crate) fn is_acknowledging(&self) -> bool {
        self.stage == Stage::AckSent
    }

    /// Whether data still comes from the peer: not after its SHUTDOWN.
    pub(crate) fn takes_data(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Pending | Stage::Sent)
    }

    /// The application ends it: what it sent before still arrives.
    pub(crate) fn start(&mut self) {
        if self.stage == Stage::Open {
            self.move_to(Stage::Pending);
        }
    }

    /// The peer has begun anew: there is nothing of it left to end, but the application's wish holds.
    pub(crate) fn start_anew(&mut self) {
        let is_wanted = matches!(self.stage, Stage::Pending | Stage::Sent);
        *self = Self::new(self.limits);
        if is_wanted {
            self.start();
        }
    }

    /// Everything that was sent is acknowledged.
    pub(crate) fn on_settled(&mut self, now: Instant) {
        match self.stage {
            Stage::Pending => {
                self.move_to(Stage::Sent);
                self.guard_at = Some(now + self.limits.rto_max * GUARD_IN_RTO_MAX);
                self.due = Some(Due::Shutdown);
            }
            Stage::Received => self.acknowledge(now),
            Stage::Open | Stage::Sent | Stage::AckSent | Stage::Over => {}
        }
    }

    /// A SHUTDOWN has come. Both ends may send one at the same time.
    pub(crate) fn on_shutdown(&mut self, now: Instant) -> ShutdownNews {
        match self.stage {
            Stage::Open | Stage::Pending => {
                self.move_to(Stage::Received);
                ShutdownNews::PeerClosing
            }
            Stage::Sent => {
                self.acknowledge(now);
                ShutdownNews::PeerClosing
            }
            Stage::AckSent => {
                self.due = Some(Due::Acknowledgement);
                ShutdownNews::Nothing
            }
            Stage::Received | Stage::Over => ShutdownNews::Nothing,
        }
    }

    /// A SHUTDOWN ACK has come.
    pub(crate) fn on_shutdown_ack(&mut self) -> ShutdownNews {
        match self.stage {
            Stage::Sent | Stage::AckSent => {
                self.end();
                self.due = Some(Due::Complete);
                ShutdownNews::Complete
            }
            Stage::Open | Stage::Pending | Stage::Received | Stage::Over => ShutdownNews::Nothing,
        }
    }

    /// A SHUTDOWN COMPLETE has come.
    pub(crate) fn on_shutdown_complete(&mut self) -> ShutdownNews {
        if self.stage != Stage::AckSent {
            return ShutdownNews::Nothing;
        }
        self.end();
        ShutdownNews::Complete
    }

    /// A packet with DATA was read: a peer that has been told to come to an end is told again at once,
    /// with how far its data has arrived (§9.2).
    pub(crate) fn on_data(&mut self) {
        if self.stage == Stage::Sent {
            self.due = Some(Due::Shutdown);
            self.expired = 0;
        }
    }

    /// An INIT or a COOKIE ECHO came to an association that is all but over: its peer has not heard so.
    pub(crate) fn on_late_beginning(&mut self) {
        if self.stage == Stage::AckSent {
            self.due = Some(Due::Acknowledgement);
        }
    }

    /// Whether [`Self::poll_chunk`] has one.
    pub(crate) fn has_chunk(&self) -> bool {
        self.due.is_some()
    }

    /// The chunk to send now. `cumulative`: up to where the peer's data has arrived; `rto`: of the path
    /// that the chunk will take. After [`ShutdownNews::Complete`] there may be a last one.
    pub(crate) fn poll_chunk(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        rto: Duration,
    ) -> Option<Chunk> {
        let chunk = match self.due.take()? {
            Due::Shutdown => Chunk::Shutdown(cumulative),
            Due::Acknowledgement => Chunk::ShutdownAck,
            Due::Complete => return Some(Chunk::ShutdownComplete { reflected: false }),
        };
        if self.expired == 0 {
            (self.asked_at, self.rto) = (now, rto);
        }
        let wait = rto.saturating_mul(1 << self.expired.min(MAX_DOUBLINGS));
        self.retransmit_at = Some(now + wait.min(self.limits.rto_max));
        Some(chunk)
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.retransmit_at.into_iter().chain(self.guard_at).min()
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> ShutdownNews {
        if self.guard_at.is_some_and(|at| at <= now) {
            self.end();
            return ShutdownNews::GaveUp;
        }
        if self.retransmit_at.is_none_or(|at| now < at) {
            return ShutdownNews::Nothing;
        }
        self.retransmit_at = None;
        self.expired = self.expired.saturating_add(1);
        if self.has_failed(now) {
            self.end();
            return ShutdownNews::GaveUp;
        }
        self.due = Some(match self.stage {
            Stage::AckSent => Due::Acknowledgement,
            Stage::Open | Stage::Pending | Stage::Sent | Stage::Received | Stage::Over => {
                Due::Shutdown
            }
        });
        ShutdownNews::TimedOut
    }

    /// As a path fails: who asks more often than the specification does must not give up sooner.
    fn has_failed(&self, now: Instant) -> bool {
        let most = self.limits.max_retransmissions;
        let silence = silence_of(most, self.rto, self.limits.rto_max);
        self.expired > most && now.since(self.asked_at) >= silence
    }

    fn acknowledge(&mut self, now: Instant) {
        self.move_to(Stage::AckSent);
        self.expired = 0;
        let guard = self.limits.rto_max * GUARD_IN_RTO_MAX;
        self.guard_at.get_or_insert(now + guard);
        self.due = Some(Due::Acknowledgement);
    }

    fn end(&mut self) {
        self.move_to(Stage::Over);
        self.retransmit_at = None;
        self.guard_at = None;
        self.due = None;
    }

    fn move_to(&mut self, stage: Stage) {
        tracing::debug!(from = ?self.stage, to = ?stage, "shutdown");
        self.stage = stage;
    }
}

/// The wait for an answer doubles so often; nothing configurable is longer.
const MAX_DOUBLINGS: u32 = 16;

/// T5-shutdown-guard, in RTO.Max. Source: RFC 9260 §9.2.
const GUARD_IN_RTO_MAX: u32 = 5;

#[cfg(test)]
mod tests;
