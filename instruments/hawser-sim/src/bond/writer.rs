//! The driver's writing task for one channel.

use bytes::{Bytes, BytesMut};
use hawser_channels::tcp_writer::{KernelState, Next, TcpWriter};
use hawser_path::KernelSample;
use hawser_scenario::Congestion;
use hawser_sched::Control;
use hawser_session::seal::TAG_LENGTH;
use hawser_session::{Outgoing, Session, Side};
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::RECORD_HEADER_LENGTH;

use super::connections::Connections;
use super::side::other;
use super::token::Token;
use crate::network::{End, Network};

/// One side of a channel: what it has in hand, and what it waits for.
///
/// A run of it is [`Writer::start`], then [`Writer::flush`], [`Writer::step`] and [`Writer::wait`]
/// for as long as there is more to do, then [`Writer::stop`]. Between a step and the next call the
/// session is to be asked what it has to tell, which may call for this writer again.
pub(super) struct Writer {
    end: End,
    /// Bytes given out by the session that the connection has not taken yet.
    pending: u64,
    /// The position behind the last record in the connection.
    position: u64,
    plan: TcpWriter,
    /// The session has named the channel since the writer last looked.
    notified: bool,
    running: bool,
    waits: Waits,
}

/// What a writer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The connection, with bytes in hand.
    Flush,
    /// What the last step said.
    Next(Next),
}

impl Writer {
    pub(super) fn new(end: End, now: Instant, id: ChannelId, position: u64) -> Self {
        Self {
            end,
            pending: 0,
            position,
            plan: TcpWriter::new(now, id),
            notified: false,
            running: false,
            waits: Waits::Next(Next::Idle),
        }
    }

    pub(super) const fn end(&self) -> End {
        self.end
    }

    /// What the kernel says; what it has not taken yet counts as unacknowledged.
    pub(super) fn sample(&self, network: &Network) -> KernelSample {
        let mut sample = network.sample(self.end);
        sample.unacknowledged += ByteCount::new(self.pending);
        sample.not_sent = sample
            .not_sent
            .map(|bytes| bytes + ByteCount::new(self.pending));
        sample
    }

    /// The session names the channel.
    pub(super) const fn notify(&mut self) {
        self.notified = true;
    }

    /// True if the session has named the channel and the writer can do something about it.
    pub(super) fn is_woken(&self) -> bool {
        self.notified && self.waits != Waits::Flush
    }

    /// True if the connection takes bytes again that the writer waits to write.
    pub(super) fn is_unblocked(&self, network: &Network) -> bool {
        let waits = matches!(self.waits, Waits::Next(Next::Full) | Waits::Flush);
        waits && network.is_writable(self.end)
    }

    /// Begins a run. Returns false if one goes on: its own work has led here, and it looks again
    /// when that is done, as a task does.
    pub(super) const fn start(&mut self) -> bool {
        if self.running {
            self.notified = true;
            return false;
        }
        self.running = true;
        true
    }

    /// Ends a run.
    pub(super) const fn stop(&mut self) {
        self.running = false;
    }

    /// Writes what is in hand. Returns true if that is all gone, so that a step may follow.
    pub(super) fn flush(&mut self, network: &mut Network) -> bool {
        if self.pending > 0 {
            self.pending -= network.write(self.end, self.pending);
            if self.pending > 0 {
                self.waits = Waits::Flush;
                return false;
            }
        }
        self.notified = false;
        true
    }

    /// Takes the next record from the session, or tells what to wait for.
    pub(super) fn step(
        &mut self,
        side: Side,
        session: &mut Session,
        network: &mut Network,
        connections: &mut Connections,
        out: &mut Outgoing,
    ) -> Next {
        let now = network.now();
        let (end, pending) = (self.end, self.pending);
        let is_due = self.plan.is_sample_due(now);
        let kernel = KernelState {
            sample: is_due.then(|| self.sample(network)),
            // A broken connection is ready for the write that shows it.
            is_writable: network.is_writable(end) || network.is_closed(end),
        };
        let unacknowledged =
            || ByteCount::new(network.written(end) - network.acknowledged(end) + pending);
        let step = self.plan.step(now, session, kernel, unacknowledged, out);
        if let Some(mark) = step.low_water {
            network.set_low_water(end, mark.as_u64());
        }
        if let Some(control) = step.control {
            let congestion = match control {
                Control::Window => Congestion::Cubic,
                Control::Rate => Congestion::Bbr,
            };
            connections.set_congestion(network, end, congestion);
        }
        if step.next == Next::Write {
            let record = self.take_up(out);
            connections.push_record(end, other(side), self.position, record);
        }
        step.next
    }

    /// Puts a record behind the others; it counts as many bytes as if it were sealed.
    fn take_up(&mut self, out: &Outgoing) -> Bytes {
        let payload: usize = out.payload.iter().map(Bytes::len).sum();
        let mut body = BytesMut::with_capacity(out.head.len() + payload);
        body.extend_from_slice(&out.head);
        out.payload
            .iter()
            .for_each(|piece| body.extend_from_slice(piece));
        let length = (RECORD_HEADER_LENGTH + body.len() + TAG_LENGTH) as u64;
        self.pending += length;
        self.position += length;
        body.freeze()
    }

    /// Waits for what a step said. Returns true if there is more to do at once.
    pub(super) fn wait(
        &mut self,
        side: Side,
        id: ChannelId,
        next: Next,
        network: &mut Network,
    ) -> bool {
        self.waits = Waits::Next(next);
        // A low-water mark that was raised makes the kernel call.
        if next == Next::Full && network.is_writable(self.end) {
            self.notified = true;
        }
        if let Next::Drain(span) = next
            && !self.notified
        {
            let at = network.now() + span;
            network.set_alarm(at, Token::Hold(side, id).pack());
        }
        self.notified
    }
}
