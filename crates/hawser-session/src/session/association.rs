//! Channels that are associations: how they come about, what they carry, what is known of their paths.
//!
//! Records are messages there, which may come in any order, each once. Those with a chunk are numbered, and
//! the peer acknowledges how many it holds without a gap; datagrams travel alone and may get lost.

use std::time::Duration;

use bytes::Bytes;
use hawser_path::KernelSample;
use hawser_sched::rules::{Permission, Terms};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, RecordNumber};
use hawser_wire::{Command, TransportChoice, put_record_number, take_record_number};

use smallvec::SmallVec;

use super::{Outgoing, Session, Side};
use crate::channel::Channel;
use crate::snapshot::ChannelSnapshot;
use crate::{Event, JoinRefused, Misbehaviour, PeerFault, Transport};

/// What is known of an association at one moment.
#[derive(Clone, Copy, Debug)]
pub struct AssociationSample<'a> {
    /// Its paths.
    pub paths: &'a [PathSample],
    /// Bytes of messages that were given to it and neither acknowledged nor given up, those that wait
    /// included; their payload alone.
    pub unacknowledged: ByteCount,
    /// Of these, those that no packet has carried yet.
    pub queued: ByteCount,
    /// Time since the peer last acknowledged anything; since the beginning where it has not.
    pub since_ack: Duration,
    /// Payload that it sent twice at once so far, as [`Outgoing::twice`](crate::Outgoing::twice) asked.
    pub sent_twice: ByteCount,
}

/// One path of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSample {
    /// The client's link below it; [`LinkIndex::ALL`] where that is not known.
    pub link: LinkIndex,
    /// It answers.
    pub is_active: bool,
    /// It is silent against expectation.
    pub is_suspect: bool,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// How fast it delivers; zero while unknown.
    pub rate: Rate,
    /// Congestion window.
    pub window: ByteCount,
    /// What is under way.
    pub in_flight: ByteCount,
    /// Bytes of datagrams sent over it since it began.
    pub sent: ByteCount,
    /// Bytes of datagrams received over it, likewise.
    pub received: ByteCount,
}

/// What waits to be sent, for an association that is given no more of it than leaves at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// How much, of the streams whose turn comes next.
    pub bytes: ByteCount,
    /// An application writes as fast as it may, so that this is not all.
    pub more: bool,
}

/// What went over a link for an association, as far as it is booked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booked {
    link: LinkIndex,
    sent: u64,
    received: u64,
}

impl Session {
    /// Tells the client at which UDP port associations are taken. For gateways, once.
    pub fn announce_datagram_port(&mut self, now: Instant, port: u16) {
        if port > 0 {
            self.queue_command(&Command::DatagramPort { port });
            self.schedule(now);
        }
    }

    /// What chunks are to travel over, both ways. For clients, which tell their gateway with the association
    /// that they begin.
    pub fn set_transport(&mut self, now: Instant, transport: TransportChoice) {
        if self.transports.set_transport(transport)
            && let Some(channel) = self.transports.announced
            && self.side == Side::Client
        {
            self.queue_command(&Command::Associate { channel, transport });
        }
        self.schedule(now);
    }

    /// What chunks are to travel over: this client's wish, or what a gateway's client told it.
    pub fn transport(&self) -> TransportChoice {
        self.transports.transport()
    }

    /// Tells the gateway that an association begins with the keys of this channel, whose number came from
    /// [`Session::take_grant`]. One that was begun before is not to be expected any more, unless it stands.
    pub fn begin_association(&mut self, now: Instant, channel: ChannelId) {
        self.transports.announced = Some(channel);
        let transport = self.transports.transport();
        self.queue_command(&Command::Associate { channel, transport });
        self.schedule(now);
    }

    /// What the user says of links for what this side sends, for those who choose paths; links that are not
    /// named are used like any other.
    pub fn link_rules(&self) -> impl Iterator<Item = (LinkIndex, Terms)> + '_ {
        self.rules.by_link().map(|(link, terms)| {
            let terms = Terms {
                up: terms.permission,
                down: Permission::Allowed,
                weight: terms.weight,
                price: terms.price,
                price_weight: terms.price_weight,
            };
            (link, terms)
        })
    }

    /// What follows the records that an association has: its choice of paths depends on that. To be asked when
    /// [`Session::poll_transmit`] gives no more.
    pub fn behind(&self) -> Behind {
        let mut behind = Behind::default();
        for list in &self.waiting {
            for id in list.iter().take(MOST_LOOKED_AT) {
                if let Some(stream) = self.streams.get(id) {
                    behind.bytes += ByteCount::new(stream.send.queued());
                    behind.more |= stream.send.has_more();
                }
            }
        }
        behind
    }

    /// What is known of an association and its paths now.
    pub fn handle_association_sample(
        &mut self,
        now: Instant,
        id: ChannelId,
        sample: &AssociationSample<'_>,
    ) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        channel.paths.clear();
        channel.paths.extend_from_slice(sample.paths);
        let twice = sample.sent_twice.as_u64();
        let before = std::mem::replace(&mut channel.sent_twice, twice);
        self.tail_budget.spend(twice.saturating_sub(before));
        self.book_paths(id);
        self.handle_sample(now, id, kernel_sample(sample));
    }

    /// The client begins an association, or wishes for another transport.
    pub(super) fn on_associate(
        &mut self,
        now: Instant,
        channel: ChannelId,
        transport: TransportChoice,
    ) -> Result<(), PeerFault> {
        self.transports.set_transport(transport);
        if self.transports.announced != Some(channel) {
            let fault = match self.granted.check(channel) {
                Ok(()) => None,
                Err(JoinRefused::Used(_)) => Some(Misbehaviour::NumberUsed(channel)),
                Err(_) => Some(Misbehaviour::NumberNotGranted(channel)),
            };
            if let Some(fault) = fault {
                return Err(PeerFault::Misbehaved(fault));
            }
            // The seal's numbers would begin again.
            self.granted.mark_used(channel);
            self.replenish_grants();
            self.transports.announced = Some(channel);
            self.events.push_back(Event::AssociationExpected(channel));
        }
        self.schedule(now);
        Ok(())
    }

    /// Takes the number off a record that came over an association. Whether it has one.
    pub(super) fn on_record_number(
        &mut self,
        id: ChannelId,
        message: &mut Bytes,
    ) -> Result<bool, PeerFault> {
        let Some(number) = take_record_number(message)? else {
            return Ok(false);
        };
        let Some(channel) = self.channels.get_mut(&id) else {
            return Ok(true);
        };
        let taken = channel.inbound.on_number(id, number);
        taken.map(|()| true).map_err(PeerFault::Misbehaved)
    }

    /// A record of datagrams for an association: alone, since it may get lost.
    pub(super) fn transmit_datagrams(&mut self, now: Instant, id: ChannelId, out: &mut Outgoing) {
        put_record_number(None, &mut out.head);
        let Some(channel) = self.channels.get(&id) else {
            return;
        };
        out.lifetime = Some(DATAGRAM_LIFETIME.max(channel.path.rtt() * 2));
        let most = channel.spec.packet_size();
        out.stream = self.put_datagrams(id, most, out).unwrap_or_default();
        self.note_sent(now, id, None, out);
    }

    /// Books what went over the links of an association's paths since the last look.
    fn book_paths(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        let mut moved = Links::new();
        for (place, path) in channel.paths.iter().enumerate() {
            let earlier = &channel.paths[..place];
            if earlier.iter().any(|other| other.link == path.link) {
                continue;
            }
            let same = || channel.paths.iter().filter(|other| other.link == path.link);
            let now = Booked {
                link: path.link,
                sent: same().map(|path| path.sent.as_u64()).sum(),
                received: same().map(|path| path.received.as_u64()).sum(),
            };
            let known = channel.booked.iter_mut().find(|it| it.link == path.link);
            let before = match known {
                Some(known) => std::mem::replace(known, now),
                None => {
                    channel.booked.push(now);
                    Booked {
                        link: path.link,
                        sent: 0,
                        received: 0,
                    }
                }
            };
            moved.push(now.since(before));
        }
        // Links whose paths are gone begin anew when they come again.
        let paths = &channel.paths;
        channel
            .booked
            .retain(|booked| paths.iter().any(|path| path.link == booked.link));
        let all = Links::from_slice(&channel.booked);
        self.book_delivered(&moved, &all);
        for booked in moved {
            let account = self.account(booked.link);
            account.sent += booked.sent;
            account.received += booked.received;
        }
    }

    /// What the peer holds thanks to the association came by its links, in proportion to what they sent now, or
    /// else since they began.
    fn book_delivered(&mut self, now: &[Booked], since_then: &[Booked]) {
        let sum = |list: &[Booked]| list.iter().map(|booked| booked.sent).sum::<u64>();
        let (list, all) = match (sum(now), sum(since_then)) {
            (0, 0) => return,
            (0, all) => (since_then, all),
            (all, _) => (now, all),
        };
        let whole = self.account(LinkIndex::ALL).take_delivered();
        let mut left = whole;
        for booked in list {
            let part = u128::from(whole) * u128::from(booked.sent) / u128::from(all);
            let part = u64::try_from(part).unwrap_or(whole).min(left);
            left -= part;
            self.account(booked.link).add_delivered(part);
        }
        self.account(LinkIndex::ALL).add_delivered(left);
    }
}

impl Booked {
    /// What came since. Of a path that is gone its part is missing: then it counts from here.
    fn since(self, before: Self) -> Self {
        Self {
            link: self.link,
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
        }
    }
}

impl Channel {
    /// Its paths, as channels of their links.
    pub(super) fn path_snapshots(&self) -> impl Iterator<Item = ChannelSnapshot> + '_ {
        self.paths.iter().map(|path| ChannelSnapshot {
            id: self.spec.id,
            role: self.spec.role,
            transport: Transport::Association,
            link: path.link,
            suspect: path.is_suspect || !path.is_active || self.suspect_since.is_some(),
            rtt: path.rtt.unwrap_or_default(),
            rate: path.rate,
            congestion_window: path.window,
            in_flight: path.in_flight,
            sent: path.sent,
            received: path.received,
            retransmissions: 0,
            segments_delivered: None,
            incoming_queue: None,
            peer: None,
        })
    }

    /// Puts the number of the next record, where it is to have one.
    pub(super) fn put_number(&self, has_chunk: bool, out: &mut Outgoing) {
        if self.spec.is_association() {
            let number = has_chunk.then(|| RecordNumber::new(self.records_sent));
            put_record_number(number, &mut out.head);
        }
    }
}

impl Outgoing {
    /// The SCTP stream that carries it, of `count` to send on: commands and state have the first for themselves,
    /// the session's streams share the others.
    pub fn sctp_stream(&self, count: u16) -> u16 {
        let others = u64::from(count.saturating_sub(1));
        match (self.stream.value().checked_sub(1), others) {
            (None, _) | (_, 0) => 0,
            (Some(number), others) => (number % others + 1) as u16,
        }
    }
}

/// The association as one connection: its paths together.
fn kernel_sample(sample: &AssociationSample<'_>) -> KernelSample {
    let sound = |path: &&PathSample| path.is_active && !path.is_suspect;
    let any = sample.paths.iter().any(|path| sound(&path));
    let used = || {
        let paths = sample.paths.iter();
        paths.filter(move |path| !any || sound(path))
    };
    let rtt = used().filter_map(|path| path.rtt).min();
    let rtt = rtt.unwrap_or_default();
    // What is under way on the longest path is acknowledged last: that explains a silence.
    let busy = used().filter(|path| path.in_flight > ByteCount::ZERO);
    let longest = busy.filter_map(|path| path.rtt).max();
    KernelSample {
        rtt,
        rtt_variation: longest.unwrap_or_default().saturating_sub(rtt) / 4,
        delivery_rate: used().map(|path| path.rate).sum(),
        congestion_window: ByteCount::new(used().map(|path| path.window.as_u64()).sum()),
        unacknowledged: sample.unacknowledged,
        not_sent: Some(sample.queued.min(sample.unacknowledged)),
        since_ack: sample.since_ack,
        ..KernelSample::default()
    }
}

/// Streams whose queues are looked at: any of them that goes on is enough.
const MOST_LOOKED_AT: usize = 8;
type Links = SmallVec<[Booked; 8]>;
/// How long a datagram is worth anything: what is older is only late. It may be sent again meanwhile.
const DATAGRAM_LIFETIME: Duration = Duration::from_millis(250);
