//! What the driver's writing task does for one channel.

use bytes::{Bytes, BytesMut};
use hawser_channels::tcp_writer::{KernelState, Next, TcpWriter};
use hawser_path::KernelSample;
use hawser_scenario::Congestion;
use hawser_sched::Control;
use hawser_session::seal::TAG_LENGTH;
use hawser_session::{Outgoing, Side};
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::RECORD_HEADER_LENGTH;

use super::{Bond, Token, place};
use crate::network::{End, Network};

/// One side of a channel.
pub(super) struct Writer {
    pub(super) end: End,
    /// Bytes given out by the session that the connection has not taken yet.
    pending: u64,
    /// The position behind the last record in the connection.
    position: u64,
    plan: TcpWriter,
    /// The session has named the channel since the writer last looked.
    pub(super) notified: bool,
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

    /// What the kernel says; what it has not taken yet counts as unacknowledged.
    pub(super) fn sample(&self, network: &Network) -> KernelSample {
        let mut sample = network.sample(self.end);
        sample.unacknowledged += ByteCount::new(self.pending);
        sample.not_sent = sample
            .not_sent
            .map(|bytes| bytes + ByteCount::new(self.pending));
        sample
    }
}

impl Bond {
    pub(super) fn write_if_woken(&mut self, side: Side, id: ChannelId) {
        let writer = self.hosts[place(side)].writers.get_mut(&id);
        if writer.is_some_and(|writer| writer.notified && writer.waits != Waits::Flush) {
            self.write(side, id);
        }
    }

    pub(super) fn write_if_writable(&mut self, side: Side, id: ChannelId) {
        let writer = self.hosts[place(side)].writers.get(&id);
        let waits =
            writer.filter(|writer| matches!(writer.waits, Waits::Next(Next::Full) | Waits::Flush));
        if waits.is_some_and(|writer| self.network.is_writable(writer.end)) {
            self.write(side, id);
        }
    }

    /// Writes records for as long as there are some and the connection takes them.
    pub(super) fn write(&mut self, side: Side, id: ChannelId) {
        let writers = &mut self.hosts[place(side)].writers;
        let Some(writer) = writers.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut writer.running, true) {
            // Its own work has led here: it looks again when that is done, as a task does.
            writer.notified = true;
            return;
        }
        let mut out = Outgoing::default();
        while self.write_once(side, id, &mut out) {}
        if let Some(writer) = self.hosts[place(side)].writers.get_mut(&id) {
            writer.running = false;
        }
    }

    /// Writes what is in hand and takes the next record. Whether to go on.
    fn write_once(&mut self, side: Side, id: ChannelId, out: &mut Outgoing) -> bool {
        let writers = &mut self.hosts[place(side)].writers;
        let Some(writer) = writers.get_mut(&id) else {
            return false;
        };
        if writer.pending > 0 {
            writer.pending -= self.network.write(writer.end, writer.pending);
            if writer.pending > 0 {
                writer.waits = Waits::Flush;
                return false;
            }
        }
        writer.notified = false;
        let Some(next) = self.next_record(side, id, out) else {
            return false;
        };
        if next == Next::Write {
            return true;
        }
        let writers = &mut self.hosts[place(side)].writers;
        let Some(writer) = writers.get_mut(&id) else {
            return false;
        };
        writer.waits = Waits::Next(next);
        // A low-water mark that was raised makes the kernel call.
        if next == Next::Full && self.network.is_writable(writer.end) {
            writer.notified = true;
        }
        if let Next::Drain(span) = next
            && !writer.notified
        {
            let at = self.network.now() + span;
            self.network.set_alarm(at, Token::Hold(side, id).pack());
        }
        writer.notified
    }

    /// Takes the next record from the session, or tells what to wait for; `None` without a channel.
    fn next_record(&mut self, side: Side, id: ChannelId, out: &mut Outgoing) -> Option<Next> {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        let writer = host.writers.get_mut(&id)?;
        let (end, pending, network) = (writer.end, writer.pending, &self.network);
        let is_due = writer.plan.is_sample_due(now);
        let kernel = KernelState {
            sample: is_due.then(|| writer.sample(network)),
            // A broken connection is ready for the write that shows it.
            is_writable: network.is_writable(end) || network.is_closed(end),
        };
        let unacknowledged =
            || ByteCount::new(network.written(end) - network.acknowledged(end) + pending);
        let session = &mut host.session;
        let step = writer.plan.step(now, session, kernel, unacknowledged, out);
        if let Some(mark) = step.low_water {
            self.network.set_low_water(end, mark.as_u64());
        }
        if let Some(control) = step.control
            && self.config.congestion.is_none()
        {
            self.network.set_congestion(end, congestion(control));
        }
        if step.next == Next::Write {
            self.send_record(side, id, out);
        }
        self.settle(side);
        Some(step.next)
    }

    /// Puts a record behind the others; it counts as many bytes as if it were sealed.
    fn send_record(&mut self, side: Side, id: ChannelId, out: &mut Outgoing) {
        let Some(writer) = self.hosts[place(side)].writers.get_mut(&id) else {
            return;
        };
        let mut body = BytesMut::with_capacity(out.head.len() + payload_length(out));
        body.extend_from_slice(&out.head);
        out.payload
            .iter()
            .for_each(|piece| body.extend_from_slice(piece));
        let length = (RECORD_HEADER_LENGTH + body.len() + TAG_LENGTH) as u64;
        writer.pending += length;
        writer.position += length;
        let position = writer.position;
        if let Some(used) = self.uses.get_mut(&writer.end.connection) {
            used.records[1 - place(side)].push_back((position, body.freeze()));
        }
    }
}

fn congestion(control: Control) -> Congestion {
    match control {
        Control::Window => Congestion::Cubic,
        Control::Rate => Congestion::Bbr,
    }
}

fn payload_length(out: &Outgoing) -> usize {
    out.payload.iter().map(Bytes::len).sum()
}
