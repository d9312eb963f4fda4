//! What the driver's writing task does for one channel.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::{Control, KernelSample};
use hawser_scenario::Congestion;
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
    next_sample: Instant,
    low_water: u32,
    /// The session has named the channel since the writer last looked.
    pub(super) notified: bool,
    running: bool,
    waits: Waits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For the session.
    Idle,
    /// For the session or the connection.
    Full,
    /// For the connection, with bytes in hand.
    Flush,
    /// For the session or a moment: the channel is to drain.
    Hold,
}

impl Writer {
    pub(super) fn new(end: End, now: Instant, position: u64) -> Self {
        Self {
            end,
            pending: 0,
            position,
            next_sample: now,
            low_water: 0,
            notified: false,
            running: false,
            waits: Waits::Idle,
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
        let waits = writer.filter(|writer| matches!(writer.waits, Waits::Full | Waits::Flush));
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
        let Some(waits) = self.next_record(side, id, out) else {
            return true;
        };
        let writers = &mut self.hosts[place(side)].writers;
        let Some(writer) = writers.get_mut(&id) else {
            return false;
        };
        writer.waits = waits;
        if waits == Waits::Hold && !writer.notified {
            let at = self.network.now() + HOLD_STEP;
            self.network.set_alarm(at, Token::Hold(side, id).pack());
        }
        writer.notified
    }

    /// Takes the next record from the session, or tells what to wait for.
    fn next_record(&mut self, side: Side, id: ChannelId, out: &mut Outgoing) -> Option<Waits> {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        let writer = host.writers.get_mut(&id)?;
        let end = writer.end;
        if now >= writer.next_sample {
            let sample = writer.sample(&self.network);
            writer.next_sample = now + SAMPLE_EVERY;
            host.session.handle_sample(now, id, sample);
            if let Some(bytes) = host.session.low_water(id) {
                writer.set_low_water(&mut self.network, bytes);
            }
            if self.config.congestion.is_none()
                && let Some(control) = host.session.choose_control(now, id)
            {
                self.network.set_congestion(end, congestion(control));
            }
        }
        let (network, pending) = (&self.network, writer.pending);
        let in_flight =
            || ByteCount::new(network.written(end) - network.acknowledged(end) + pending);
        let holds = host.session.holds(now, id, in_flight);
        let ready = !holds && (self.network.is_writable(end) || self.network.is_closed(end));
        if ready {
            host.session.handle_writable(now, id);
        } else {
            host.session.handle_full(id);
        }
        let found = host.session.poll_transmit(now, id, out);
        if found {
            self.send_record(side, id, out);
        }
        self.settle(side);
        match (found, holds, ready) {
            (true, ..) => None,
            (false, true, _) => Some(Waits::Hold),
            (false, false, true) => Some(Waits::Idle),
            (false, false, false) => Some(Waits::Full),
        }
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

impl Writer {
    fn set_low_water(&mut self, network: &mut Network, bytes: u32) {
        // The kernel asks for more when less than half the mark is left.
        let mark = bytes.saturating_mul(2);
        if mark.abs_diff(self.low_water) > self.low_water / 4 {
            self.low_water = mark;
            network.set_low_water(self.end, u64::from(mark));
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

const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// How often a channel that drains is looked at.
const HOLD_STEP: Duration = Duration::from_millis(2);
