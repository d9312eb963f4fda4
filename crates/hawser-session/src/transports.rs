//! The transport that chunks go over: TCP channels or an association, never both at once, since
//! they would compete for the same links.

mod transport_trial;

use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::{ChannelRole, TransportChoice};
use transport_trial::{Look, TransportTrial};

use crate::channel::Channel;
use crate::channels::Channels;
use crate::recorder::Note;
use crate::snapshot::TransportSnapshot;
use crate::transport::{Transport, TransportReason};

/// The choice of a transport, for what this side sends.
#[derive(Debug)]
pub(crate) struct Transports {
    /// TCP until the user's choice is known: a gateway hears of it with the association.
    choice: TransportChoice,
    /// The association that the client told of last.
    announced: Option<ChannelId>,
    trial: TransportTrial,
    /// Payload that the peer holds thanks to each, TCP first.
    held: [u64; 2],
}

impl Transports {
    pub(crate) fn new() -> Self {
        Self {
            choice: TransportChoice::Tcp,
            announced: None,
            trial: TransportTrial::new(),
            held: [0; 2],
        }
    }

    /// Sets the user's choice. True if it was another.
    pub(crate) fn set_choice(&mut self, choice: TransportChoice) -> bool {
        std::mem::replace(&mut self.choice, choice) != choice
    }

    /// Returns the user's choice.
    pub(crate) fn choice(&self) -> TransportChoice {
        self.choice
    }

    /// Notes that the client has told of an association.
    pub(crate) fn announce(&mut self, association: ChannelId) {
        self.announced = Some(association);
    }

    /// Returns the association that the client told of last.
    pub(crate) fn announced(&self) -> Option<ChannelId> {
        self.announced
    }

    /// Counts payload that the peer holds since a link's channel brought it.
    pub(crate) fn on_held(&mut self, link: LinkIndex, bytes: u64) {
        let transport = match link {
            LinkIndex::ALL => Transport::Association,
            _ => Transport::Tcp,
        };
        self.held[transport.index()] += bytes;
    }

    /// Returns the association that chunks of a kind go over now; `None`: over TCP channels.
    pub(crate) fn association_for(
        &self,
        now: Instant,
        role: ChannelRole,
        channels: &Channels,
    ) -> Option<ChannelId> {
        if self.choice == TransportChoice::Tcp {
            return None;
        }
        let mut newest = None;
        let mut sound = None;
        let mut tcp_is_sound = false;
        for channel in channels.iter() {
            if !channel.is_association() {
                tcp_is_sound |= channel.is_usable();
                continue;
            }
            newest = newest.max(Some(channel.id()));
            if !channel.is_suspect() && !channel.is_late(now) {
                sound = sound.max(Some(channel.id()));
            }
        }
        let wanted = self.wants_association(role);
        match (sound, tcp_is_sound) {
            (Some(_), tcp_is_sound) if wanted || !tcp_is_sound => sound,
            (_, true) => None,
            // Nothing is sound: whatever answers first.
            (_, false) => newest.filter(|_| channels.len() == 1),
        }
    }

    /// Returns the association that datagrams go over: the newest sound one, unless the user wants
    /// none.
    pub(crate) fn association_for_datagrams(
        &self,
        now: Instant,
        channels: &Channels,
    ) -> Option<ChannelId> {
        let sound = |c: &&Channel| c.is_association() && c.is_sound(now) && !c.is_late(now);
        let wanted = self.choice != TransportChoice::Tcp;
        let newest = channels.iter().rev().filter(|_| wanted).find(sound);
        newest.map(Channel::id)
    }

    /// Compares both transports, where the user leaves the choice open. Called every few
    /// milliseconds while something is in flight. `demand`: there is more to send than links take.
    /// Returns what to record when that changes anything.
    pub(crate) fn compare(
        &mut self,
        now: Instant,
        channels: &Channels,
        demand: bool,
    ) -> Option<Note> {
        if self.choice != TransportChoice::Auto {
            return None;
        }
        let look = Look::new(now, demand, self.held, channels.iter());
        let trial = &mut self.trial;
        let was_chosen = trial.chosen();
        let has_changed = trial.on_look(now, &look) || trial.chosen() != was_chosen;
        let note = has_changed.then(|| Note::Transport {
            transport: trial.in_use(),
            reason: trial.reason(),
            measured: trial.measured().map(Option::unwrap_or_default),
        })?;
        tracing::debug!(?note, "another transport");
        Some(note)
    }

    /// Returns what there is to see of it.
    pub(crate) fn snapshot(&self, now: Instant, channels: &Channels) -> TransportSnapshot {
        let mut newest_first = channels.iter().rev();
        let association = newest_first.find(|channel| channel.is_association());
        let is_open = self.choice == TransportChoice::Auto;
        let [tcp, sctp] = self.trial.measured();
        TransportSnapshot {
            wish: self.choice,
            in_use: match self.association_for(now, ChannelRole::Bulk, channels) {
                Some(_) => Transport::Association,
                None => Transport::Tcp,
            },
            association: association.map(Channel::id),
            trying: is_open && self.trial.is_trying(),
            reason: if is_open {
                self.trial.reason()
            } else {
                TransportReason::Wished
            },
            tcp,
            sctp,
        }
    }

    /// True if chunks of a kind should go over an association.
    fn wants_association(&self, role: ChannelRole) -> bool {
        let chosen = match (self.choice, role) {
            (TransportChoice::Tcp, _) => Transport::Tcp,
            (TransportChoice::Sctp, _) => Transport::Association,
            (TransportChoice::Auto, ChannelRole::Bulk) => self.trial.wanted(),
            (TransportChoice::Auto, ChannelRole::Express) => self.trial.chosen(),
        };
        chosen == Transport::Association
    }
}

/// True if a channel may have chunks while these go over `association`, or else over TCP.
pub(crate) fn carries(channel: &Channel, association: Option<ChannelId>) -> bool {
    match association {
        Some(id) => channel.id() == id,
        None => !channel.is_association(),
    }
}
