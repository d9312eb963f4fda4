//! What goes between a session and its association: records, samples.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sctp::{Association, Behind, Message, Reliability, Route};
use hawser_session::{AssociationSample, Outgoing, PathSample, Session, Side};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::sctp::StreamNumber;

use super::RiderEnd;
use crate::association::{client_local, server_local};
use crate::bond::{Bond, place};

impl Bond {
    /// Gives the session's side what is known of the association.
    pub(in crate::bond) fn sample_rider(&mut self, side: Side, channel: ChannelId) {
        let now = self.network.now();
        let Some(rider) = self.rider.as_mut().filter(|it| it.channel == channel) else {
            return;
        };
        let end = &mut rider.ends[place(side)];
        end.next_sample = now + SAMPLE_EVERY;
        let Some((_, association)) = &end.association else {
            return;
        };
        let held = end
            .held
            .as_ref()
            .map_or(0, |(_, message)| message.payload.len());
        let session = &mut self.hosts[place(side)].session;
        sample(session, now, channel, association, held as u64);
    }

    /// Hands messages that have come to the session.
    pub(super) fn take_messages(&mut self, side: Side, channel: ChannelId) {
        let now = self.network.now();
        while let Some(rider) = &mut self.rider
            && let Some((_, association)) = &mut rider.ends[place(side)].association
            && let Some(received) = association.receive()
        {
            let session = &mut self.hosts[place(side)].session;
            if let Err(fault) = session.handle_record(now, channel, received.payload()) {
                // Sessions of one program never misunderstand each other.
                unreachable!("{fault}");
            }
        }
    }

    /// Hands records of the session to the association, as long as it would send them at once.
    pub(super) fn give_messages(&mut self, side: Side, channel: ChannelId) {
        let now = self.network.now();
        let mut out = Outgoing::default();
        loop {
            let Some(rider) = &mut self.rider else {
                return;
            };
            let end = &mut rider.ends[place(side)];
            if let Some((stream, message)) = end.held.take() {
                end.send(now, stream, message);
            }
            let due = now >= end.next_sample;
            let is_full = end.held.is_some();
            if due {
                self.sample_rider(side, channel);
            }
            let Some(rider) = &mut self.rider else {
                return;
            };
            let end = &mut rider.ends[place(side)];
            let Some((_, association)) = &mut end.association else {
                return;
            };
            let session = &mut self.hosts[place(side)].session;
            let low_water = session.low_water(channel).unwrap_or(0);
            let ready = !is_full && association.queued().as_u64() < u64::from(low_water);
            match ready {
                true => session.handle_writable(now, channel),
                false => session.handle_full(channel),
            }
            if is_full || !session.poll_transmit(now, channel, &mut out) {
                let hawser_session::Behind { bytes, more } = session.behind();
                association.set_behind(Behind { bytes, more });
                return;
            }
            let stream = StreamNumber::new(out.sctp_stream(association.outbound_streams()));
            end.send(now, stream, message(&out));
        }
    }
}

impl RiderEnd {
    /// Takes a message, unless one waits already.
    fn send(&mut self, now: Instant, stream: StreamNumber, message: Message) {
        if let Some((_, association)) = &mut self.association
            && association.send(now, stream, message.clone()).is_err()
        {
            self.held = Some((stream, message));
        }
    }
}

fn message(out: &Outgoing) -> Message {
    let mut payload = BytesMut::from(&out.head[..]);
    out.payload
        .iter()
        .for_each(|piece: &Bytes| payload.extend_from_slice(piece));
    Message {
        unordered: true,
        reliability: match out.lifetime {
            Some(lifetime) => Reliability::Lifetime(lifetime),
            None => Reliability::Full,
        },
        twice: out.duplicate,
        ..Message::new(payload.freeze())
    }
}

fn sample(
    session: &mut Session,
    now: Instant,
    channel: ChannelId,
    association: &Association,
    held: u64,
) {
    let paths = association.paths(now);
    let paths: Vec<PathSample> = paths
        .iter()
        .map(|path| PathSample {
            link: link_of(&path.route),
            is_active: path.is_active,
            is_suspect: path.is_suspect,
            rtt: path.rtt,
            rate: path.rate,
            window: path.window,
            in_flight: path.in_flight,
            sent: path.sent.bytes,
            received: path.received.bytes,
        })
        .collect();
    let backlog = association.backlog();
    let queued = backlog.queued + ByteCount::new(held);
    let sample = AssociationSample {
        paths: &paths,
        unacknowledged: queued + backlog.under_way,
        queued,
        since_ack: match backlog.acknowledged_at {
            Instant::ZERO => Duration::ZERO,
            at => now.since(at),
        },
        duplicated: backlog.sent_twice,
    };
    session.handle_association_sample(now, channel, &sample);
}

/// The client's link of a path, as either end knows it.
pub(super) fn link_of(route: &Route) -> LinkIndex {
    let client = match route.remote.ip() {
        ip if ip == server_local(0).address => return route.local.link,
        ip => ip,
    };
    let number = (0..255).find(|number| client_local(*number).address == client);
    number.map_or(LinkIndex::ALL, |number| client_local(number).link)
}

const SAMPLE_EVERY: Duration = Duration::from_millis(10);
