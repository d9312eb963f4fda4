//! What chunks go over: TCP channels or an association, never both at once, since they would compete for the
//! same links.

use std::time::Duration;

use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::{ChannelRole, TransportChoice};

use super::Session;
use super::transport_trial::{Look, TransportTrial, index};
use crate::channel::Channel;
use crate::recorder::Note;
use crate::snapshot::TransportSnapshot;
use crate::{Transport, TransportReason};

/// What this side sends over.
#[derive(Debug, Default)]
pub(super) struct Transports {
    transport: TransportChoice,
    /// The association that the client told of last.
    pub(super) announced: Option<ChannelId>,
    trial: TransportTrial,
    /// What the peer holds thanks to each, TCP first.
    held: [u64; 2],
}

impl Transports {
    /// Whether it was another.
    pub(super) fn set_transport(&mut self, transport: TransportChoice) -> bool {
        std::mem::replace(&mut self.transport, transport) != transport
    }

    pub(super) fn transport(&self) -> TransportChoice {
        self.transport
    }

    /// The peer holds so much more, which a link's channel brought.
    pub(super) fn on_held(&mut self, link: LinkIndex, bytes: u64) {
        let transport = match link {
            LinkIndex::ALL => Transport::Association,
            _ => Transport::Tcp,
        };
        self.held[index(transport)] += bytes;
    }

    /// Whether chunks of a kind are to go over an association.
    fn wants_association(&self, role: ChannelRole) -> bool {
        let chosen = match (self.transport, role) {
            (TransportChoice::Tcp, _) => Transport::Tcp,
            (TransportChoice::Sctp, _) => Transport::Association,
            (TransportChoice::Auto, ChannelRole::Bulk) => self.trial.in_use(),
            (TransportChoice::Auto, ChannelRole::Express) => self.trial.chosen(),
        };
        chosen == Transport::Association
    }
}

impl Session {
    /// The association that chunks of a kind go over now; `None`: over TCP channels.
    pub(super) fn association_in_use(&self, now: Instant, role: ChannelRole) -> Option<ChannelId> {
        if self.transports.transport == TransportChoice::Tcp {
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
        let wanted = self.transports.wants_association(role);
        match (sound, tcp_is_sound) {
            (Some(_), tcp_is_sound) if wanted || !tcp_is_sound => sound,
            (_, true) => None,
            // Nothing is sound: whatever answers first.
            (_, false) => newest.filter(|_| self.channels.len() == 1),
        }
    }
}

impl Session {
    /// Compares both transports, where that is wished. Called each few milliseconds while something is under way.
    pub(super) fn compare_transports(&mut self, now: Instant) {
        if self.transports.transport != TransportChoice::Auto {
            return;
        }
        let mut look = Look {
            demand: self.has_demand(),
            held: self.transports.held,
            sound: [false; 2],
            in_flight: [0; 2],
            round_trip: Duration::ZERO,
            longest_way: Duration::ZERO,
            in_turns: false,
        };
        for channel in self.channels.values() {
            let place = index(channel.spec.transport());
            look.in_flight[place] += channel.in_flight;
            if channel.suspect_since.is_none() && !channel.is_excluded() {
                look.sound[place] = true;
                if place == index(Transport::Tcp) {
                    let way = channel.path.min_rtt().unwrap_or_default();
                    look.longest_way = look.longest_way.max(way);
                    look.in_turns |= channel.path.silence().goes_in_turns(now);
                }
                let spread = channel.path.latest().rtt_variation * 4;
                let rtt = match channel.spec.transport() {
                    Transport::Tcp => channel.path.rtt(),
                    Transport::Association => channel.path.rtt() + spread,
                };
                look.round_trip = look.round_trip.max(rtt);
            }
        }
        let trial = &mut self.transports.trial;
        let was_chosen = trial.chosen();
        if trial.on_look(now, &look) || trial.chosen() != was_chosen {
            let note = Note::Transport {
                transport: trial.in_use(),
                reason: trial.reason(),
                measured: trial.measured().map(Option::unwrap_or_default),
            };
            tracing::debug!(?note, "another transport");
            self.recorder.note(now, note);
        }
    }

    pub(super) fn transport_snapshot(&self, now: Instant) -> TransportSnapshot {
        let association = self.channels.values().rev();
        let mut association = association.filter(|channel| channel.spec.is_association());
        let in_use = self.association_in_use(now, ChannelRole::Bulk);
        let trial = &self.transports.trial;
        let is_open = self.transports.transport == TransportChoice::Auto;
        let [tcp, sctp] = trial.measured();
        TransportSnapshot {
            wish: self.transports.transport,
            in_use: match in_use {
                Some(_) => Transport::Association,
                None => Transport::Tcp,
            },
            association: association.next().map(|channel| channel.spec.id),
            trying: is_open && trial.is_trying(),
            reason: match is_open {
                true => trial.reason(),
                false => TransportReason::Wished,
            },
            tcp,
            sctp,
        }
    }

    /// The association that datagrams go over: the newest that is sound, unless none is wanted.
    pub(super) fn association_for_datagrams(&self, now: Instant) -> Option<ChannelId> {
        let sound = |c: &&Channel| c.spec.is_association() && c.is_sound(now) && !c.is_late(now);
        let wanted = self.transports.transport != TransportChoice::Tcp;
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
