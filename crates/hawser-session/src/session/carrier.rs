//! What chunks go over: TCP channels or an association, never both at once, since they would compete for the
//! same links.

use std::time::Duration;

use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::{ChannelRole, Transport};

use super::Session;
use super::race::{Look, Race, index};
use crate::channel::Channel;
use crate::recorder::Note;
use crate::snapshot::TransportSnapshot;
use crate::{Carrier, CarrierReason};

/// What this side sends over.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    transport: Transport,
    /// The association that the client told of last.
    pub(super) announced: Option<ChannelId>,
    race: Race,
    /// What the peer holds thanks to each, TCP first.
    held: [u64; 2],
}

impl Carriers {
    /// Whether it was another.
    pub(super) fn set_transport(&mut self, transport: Transport) -> bool {
        std::mem::replace(&mut self.transport, transport) != transport
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    /// The peer holds so much more, which a link's channel brought.
    pub(super) fn on_held(&mut self, link: LinkIndex, bytes: u64) {
        let carrier = match link {
            LinkIndex::ALL => Carrier::Association,
            _ => Carrier::Tcp,
        };
        self.held[index(carrier)] += bytes;
    }

    /// Whether chunks of a kind are to go over an association.
    fn wants_association(&self, role: ChannelRole) -> bool {
        let chosen = match (self.transport, role) {
            (Transport::Tcp, _) => Carrier::Tcp,
            (Transport::Sctp, _) => Carrier::Association,
            (Transport::Auto, ChannelRole::Bulk) => self.race.in_use(),
            (Transport::Auto, ChannelRole::Express) => self.race.chosen(),
        };
        chosen == Carrier::Association
    }
}

impl Session {
    /// The association that chunks of a kind go over now; `None`: over TCP channels.
    pub(super) fn association_in_use(&self, now: Instant, role: ChannelRole) -> Option<ChannelId> {
        if self.carriers.transport == Transport::Tcp {
            return None;
        }
        let mut newest = None;
        let mut sound = None;
        let mut tcp_is_sound = false;
        for channel in self.channels.values() {
            let id = channel.spec.id;
            if !channel.spec.is_association() {
                tcp_is_sound |= channel.suspect_since.is_none() && !channel.is_excluded();
                continue;
            }
            newest = newest.max(Some(id));
            if channel.suspect_since.is_none() && !channel.is_late(now) {
                sound = sound.max(Some(id));
            }
        }
        let wanted = self.carriers.wants_association(role);
        match (sound, tcp_is_sound) {
            (Some(_), tcp_is_sound) if wanted || !tcp_is_sound => sound,
            (_, true) => None,
            // Nothing is sound: whatever answers first.
            (_, false) => newest.filter(|_| self.channels.len() == 1),
        }
    }
}

impl Session {
    /// Compares both carriers, where that is wished. Called each few milliseconds while something is under way.
    pub(super) fn compare_carriers(&mut self, now: Instant) {
        if self.carriers.transport != Transport::Auto {
            return;
        }
        let mut look = Look {
            demand: self.has_demand(),
            held: self.carriers.held,
            sound: [false; 2],
            in_flight: [0; 2],
            round_trip: Duration::ZERO,
            longest_way: Duration::ZERO,
            in_turns: false,
        };
        for channel in self.channels.values() {
            let place = index(channel.spec.carrier());
            look.in_flight[place] += channel.in_flight;
            if channel.suspect_since.is_none() && !channel.is_excluded() {
                look.sound[place] = true;
                if place == index(Carrier::Tcp) {
                    let way = channel.path.min_rtt().unwrap_or_default();
                    look.longest_way = look.longest_way.max(way);
                    look.in_turns |= channel.path.silence().goes_in_turns(now);
                }
                let spread = channel.path.latest().rtt_variation * 4;
                let rtt = match channel.spec.carrier() {
                    Carrier::Tcp => channel.path.rtt(),
                    Carrier::Association => channel.path.rtt() + spread,
                };
                look.round_trip = look.round_trip.max(rtt);
            }
        }
        let race = &mut self.carriers.race;
        let was_chosen = race.chosen();
        if race.on_look(now, &look) || race.chosen() != was_chosen {
            let note = Note::Carrier {
                carrier: race.in_use(),
                reason: race.reason(),
                measured: race.measured().map(Option::unwrap_or_default),
            };
            tracing::debug!(?note, "another carrier");
            self.recorder.note(now, note);
        }
    }

    pub(super) fn transport_snapshot(&self, now: Instant) -> TransportSnapshot {
        let association = self.channels.values().rev();
        let mut association = association.filter(|channel| channel.spec.is_association());
        let in_use = self.association_in_use(now, ChannelRole::Bulk);
        let race = &self.carriers.race;
        let is_open = self.carriers.transport == Transport::Auto;
        let [tcp, sctp] = race.measured();
        TransportSnapshot {
            wish: self.carriers.transport,
            in_use: match in_use {
                Some(_) => Carrier::Association,
                None => Carrier::Tcp,
            },
            association: association.next().map(|channel| channel.spec.id),
            trying: is_open && race.is_trying(),
            reason: match is_open {
                true => race.reason(),
                false => CarrierReason::Wished,
            },
            tcp,
            sctp,
        }
    }

    /// The association that datagrams go over: the newest that is sound, unless none is wanted.
    pub(super) fn association_for_datagrams(&self, now: Instant) -> Option<ChannelId> {
        let sound = |c: &&Channel| c.spec.is_association() && c.is_sound(now) && !c.is_late(now);
        let wanted = self.carriers.transport != Transport::Tcp;
        let channels = self.channels.values().rev();
        let newest = channels.filter(|_| wanted).find(sound);
        newest.map(|channel| channel.spec.id)
    }
}

/// Whether a channel may carry chunks while these go over `association`, or else over TCP.
pub(super) fn carries(channel: &Channel, association: Option<ChannelId>) -> bool {
    match association {
        Some(id) => channel.spec.id == id,
        None => !channel.spec.is_association(),
    }
}
