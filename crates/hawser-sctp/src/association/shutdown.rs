use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::sctp::{Chunk, Tsn};

use crate::path::failure_delay;

/// The graceful shutdown of an association, without loss of data (RFC 9260 §9.2).
///
/// The association reports what happens, then drains [`Self::poll_chunk`] and asks
/// [`Self::poll_timeout`] when to wake up.
///
/// | call | when |
/// |---|---|
/// | [`Self::start`] | the application ends the association |
/// | [`Self::on_settled`] | nothing waits to be sent or acknowledged; may be repeated |
/// | [`Self::on_shutdown`] … | such a chunk arrived; the caller has read a SHUTDOWN's TSN before |
/// | [`Self::on_data`] | a packet with DATA has been read |
#[derive(Debug)]
pub(crate) struct Shutdown {
    stage: ShutdownStage,
    /// Chunk to be sent.
    due: Option<Due>,
    /// T2-shutdown.
    retransmit_at: Option<Instant>,
    /// T5-shutdown-guard.
    guard_at: Option<Instant>,
    /// Consecutive expiries of T2.
    expired: u32,
    /// Time of the first transmission that was not answered.
    asked_at: Instant,
    /// RTO at that time.
    rto: Duration,
    limits: ShutdownLimits,
}

/// Limits of a shutdown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShutdownLimits {
    /// RTO.Max.
    pub(crate) rto_max: Duration,
    /// Association.Max.Retrans.
    pub(crate) max_retransmissions: u32,
}

/// Next step of the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownOutcome {
    /// Nothing.
    Nothing,
    /// The peer sends nothing more and waits for data in flight: new messages are refused.
    PeerClosing,
    /// The last chunk was not answered: its path counts a time-out, and the next chunk takes
    /// another path if there is one.
    TimedOut,
    /// The association is over, and everything has arrived.
    Complete,
    /// The peer does not complete the shutdown: abort.
    GaveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownStage {
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
    /// Creates the state of an open association.
    pub(crate) fn new(limits: ShutdownLimits) -> Self {
        Self {
            stage: ShutdownStage::Open,
            due: None,
            retransmit_at: None,
            guard_at: None,
            expired: 0,
            asked_at: Instant::ZERO,
            rto: Duration::ZERO,
            limits,
        }
    }

    /// Tells whether new messages are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.stage == ShutdownStage::Open
    }

    /// Tells whether a SHUTDOWN ACK was sent: from here an association does not restart.
    pub(crate) fn is_acknowledging(&self) -> bool {
        self.stage == ShutdownStage::AckSent
    }

    /// Tells whether data from the peer is accepted: not after its SHUTDOWN.
    pub(crate) fn takes_data(&self) -> bool {
        matches!(
            self.stage,
            ShutdownStage::Open | ShutdownStage::Pending | ShutdownStage::Sent
        )
    }

    /// Starts the shutdown; messages sent before still arrive.
    pub(crate) fn start(&mut self) {
        if self.stage == ShutdownStage::Open {
            self.move_to(ShutdownStage::Pending);
        }
    }

    /// Handles a restart of the peer: its shutdown is void, but the application's request stays.
    pub(crate) fn start_anew(&mut self) {
        let is_wanted = matches!(self.stage, ShutdownStage::Pending | ShutdownStage::Sent);
        *self = Self::new(self.limits);
        if is_wanted {
            self.start();
        }
    }

    /// Handles that everything sent is acknowledged.
    pub(crate) fn on_settled(&mut self, now: Instant) {
        match self.stage {
            ShutdownStage::Pending => {
                self.move_to(ShutdownStage::Sent);
                self.guard_at = Some(now + self.limits.rto_max * GUARD_IN_RTO_MAX);
                self.due = Some(Due::Shutdown);
            }
            ShutdownStage::Received => self.acknowledge(now),
            ShutdownStage::Open
            | ShutdownStage::Sent
            | ShutdownStage::AckSent
            | ShutdownStage::Over => {}
        }
    }

    /// Handles a SHUTDOWN. Both ends may send one at the same time.
    pub(crate) fn on_shutdown(&mut self, now: Instant) -> ShutdownOutcome {
        match self.stage {
            ShutdownStage::Open | ShutdownStage::Pending => {
                self.move_to(ShutdownStage::Received);
                ShutdownOutcome::PeerClosing
            }
            ShutdownStage::Sent => {
                self.acknowledge(now);
                ShutdownOutcome::PeerClosing
            }
            ShutdownStage::AckSent => {
                self.due = Some(Due::Acknowledgement);
                ShutdownOutcome::Nothing
            }
            ShutdownStage::Received | ShutdownStage::Over => ShutdownOutcome::Nothing,
        }
    }

    /// Handles a SHUTDOWN ACK.
    pub(crate) fn on_shutdown_ack(&mut self) -> ShutdownOutcome {
        match self.stage {
            ShutdownStage::Sent | ShutdownStage::AckSent => {
                self.end();
                self.due = Some(Due::Complete);
                ShutdownOutcome::Complete
            }
            ShutdownStage::Open
            | ShutdownStage::Pending
            | ShutdownStage::Received
            | ShutdownStage::Over => ShutdownOutcome::Nothing,
        }
    }

    /// Handles a SHUTDOWN COMPLETE.
    pub(crate) fn on_shutdown_complete(&mut self) -> ShutdownOutcome {
        if self.stage != ShutdownStage::AckSent {
            return ShutdownOutcome::Nothing;
        }
        self.end();
        ShutdownOutcome::Complete
    }

    /// Handles a packet with DATA: SHUTDOWN is repeated at once, with the new cumulative TSN
    /// (§9.2).
    pub(crate) fn on_data(&mut self) {
        if self.stage == ShutdownStage::Sent {
            self.due = Some(Due::Shutdown);
            self.expired = 0;
        }
    }

    /// Handles an INIT or COOKIE ECHO during SHUTDOWN-ACK-SENT: the SHUTDOWN ACK is repeated.
    pub(crate) fn on_late_beginning(&mut self) {
        if self.stage == ShutdownStage::AckSent {
            self.due = Some(Due::Acknowledgement);
        }
    }

    /// Tells whether [`Self::poll_chunk`] has a chunk.
    pub(crate) fn has_chunk(&self) -> bool {
        self.due.is_some()
    }

    /// Returns the chunk to send now. `cumulative`: the cumulative TSN of the peer's data; `rto`:
    /// of the path that the chunk will take. After [`ShutdownOutcome::Complete`] there may be a
    /// last one.
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

    /// Returns when to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.retransmit_at.into_iter().chain(self.guard_at).min()
    }

    /// Handles the expiry of T2 or T5.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> ShutdownOutcome {
        if self.guard_at.is_some_and(|at| at <= now) {
            self.end();
            return ShutdownOutcome::GaveUp;
        }
        if self.retransmit_at.is_none_or(|at| now < at) {
            return ShutdownOutcome::Nothing;
        }
        self.retransmit_at = None;
        self.expired = self.expired.saturating_add(1);
        // The peer counts as unreachable by the rule for paths: a shorter RTO than the
        // specification's must not give up sooner.
        let most = self.limits.max_retransmissions;
        let silence = failure_delay(most, self.rto, self.limits.rto_max);
        if self.expired > most && now.since(self.asked_at) >= silence {
            self.end();
            return ShutdownOutcome::GaveUp;
        }
        self.due = Some(match self.stage {
            ShutdownStage::AckSent => Due::Acknowledgement,
            ShutdownStage::Open
            | ShutdownStage::Pending
            | ShutdownStage::Sent
            | ShutdownStage::Received
            | ShutdownStage::Over => Due::Shutdown,
        });
        ShutdownOutcome::TimedOut
    }

    fn acknowledge(&mut self, now: Instant) {
        self.move_to(ShutdownStage::AckSent);
        self.expired = 0;
        let guard = self.limits.rto_max * GUARD_IN_RTO_MAX;
        self.guard_at.get_or_insert(now + guard);
        self.due = Some(Due::Acknowledgement);
    }

    fn end(&mut self) {
        self.move_to(ShutdownStage::Over);
        self.retransmit_at = None;
        self.guard_at = None;
        self.due = None;
    }

    fn move_to(&mut self, stage: ShutdownStage) {
        tracing::debug!(from = ?self.stage, to = ?stage, "shutdown");
        self.stage = stage;
    }
}

/// Maximum number of doublings of the wait; no configuration allows a longer wait.
const MAX_DOUBLINGS: u32 = 16;

/// T5-shutdown-guard, in RTO.Max. Source: RFC 9260 §9.2.
const GUARD_IN_RTO_MAX: u32 = 5;

#[cfg(test)]
mod tests;
