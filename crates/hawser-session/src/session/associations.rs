//! Channels that are associations: how they come about, and what is known of their paths.
//!
//! Records are messages there, which may come in any order, each once. Those with a chunk are
//! numbered, and the peer acknowledges how many it holds without a gap; datagrams travel alone and
//! may get lost.

use bytes::Bytes;
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::{Command, TransportChoice, take_record_number};

use super::Session;
use crate::association::{AssociationSample, StreamBacklog};
use crate::error::{Misbehaviour, PeerFault};
use crate::event::Event;
use crate::grant::JoinRefused;
use crate::side::Side;

impl Session {
    /// Tells the client at which UDP port associations are taken. For gateways, once.
    pub fn announce_datagram_port(&mut self, now: Instant, port: u16) {
        if port > 0 {
            self.command(&Command::DatagramPort { port });
            self.schedule(now);
        }
    }

    /// Sets the transport that chunks are to travel over, both ways. For clients, which tell their
    /// gateway with the association that they begin.
    pub fn set_transport(&mut self, now: Instant, transport: TransportChoice) {
        if self.transports.set_choice(transport)
            && let Some(channel) = self.transports.announced()
            && self.side == Side::Client
        {
            self.commands
                .push(&Command::Associate { channel, transport });
        }
        self.schedule(now);
    }

    /// Returns the transport that chunks are to travel over: this client's choice, or the one that
    /// a gateway's client told it.
    pub fn transport(&self) -> TransportChoice {
        self.transports.choice()
    }

    /// Tells the gateway that an association begins with the keys of this channel, whose number
    /// came from [`Session::take_grant`]. The gateway expects one that was begun before no longer,
    /// unless it stands.
    pub fn begin_association(&mut self, now: Instant, channel: ChannelId) {
        self.transports.announce(channel);
        let transport = self.transports.choice();
        self.commands
            .push(&Command::Associate { channel, transport });
        self.schedule(now);
    }

    /// Returns what follows the records that an association has: its choice of paths depends on
    /// that. To be asked when [`Session::poll_transmit`] gives no more.
    pub fn stream_backlog(&self) -> StreamBacklog {
        let mut backlog = StreamBacklog::default();
        for stream in self.streams.waiting(MOST_LOOKED_AT) {
            backlog.bytes += ByteCount::new(stream.send().queued());
            backlog.more |= stream.send().has_more();
        }
        backlog
    }

    /// Takes in the state of an association and its paths.
    pub fn handle_association_sample(
        &mut self,
        now: Instant,
        id: ChannelId,
        sample: &AssociationSample<'_>,
    ) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        self.recorder.on_association(sample.paths, sample.placed);
        let paths = channel.paths_mut();
        let repeated = paths.on_sample(now, sample);
        self.duplicates.spend(repeated.charged);
        self.counters.bytes_duplicated += repeated.copied;
        let (moved, all) = (paths.book(), paths.booked());
        self.links.book_association(&self.channels, &moved, &all);
        self.handle_sample(now, id, sample.as_one_connection());
        if sample.is_stuck && self.channels.iter().any(|it| !it.is_association()) {
            tracing::info!(%id, "no link carries its packets any more");
            self.give_up(now, id);
            self.schedule(now);
        }
    }

    /// Takes note that the client begins an association, or wants another transport.
    pub(super) fn on_associate(
        &mut self,
        now: Instant,
        channel: ChannelId,
        transport: TransportChoice,
    ) -> Result<(), PeerFault> {
        self.transports.set_choice(transport);
        if self.transports.announced() != Some(channel) {
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
            self.transports.announce(channel);
            self.events.push(Event::AssociationExpected(channel));
        }
        self.schedule(now);
        Ok(())
    }

    /// Takes the number off a record that came over an association. True if it has one.
    pub(super) fn on_record_number(
        &mut self,
        id: ChannelId,
        message: &mut Bytes,
    ) -> Result<bool, PeerFault> {
        let Some(number) = take_record_number(message)? else {
            return Ok(false);
        };
        let Some(channel) = self.channels.get_mut(id) else {
            return Ok(true);
        };
        let taken = channel.inbound_mut().on_numbered_record(id, number);
        taken.map(|()| true).map_err(PeerFault::Misbehaved)
    }
}

/// Streams whose queues are looked at: any of them that goes on is enough.
const MOST_LOOKED_AT: usize = 8;
