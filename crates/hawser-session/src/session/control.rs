//! The command stream: greetings, grants, resets, enrolment and the orderly end.

use bytes::Bytes;
use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::{ChunkHeader, Command, Enrolment, Hello};

use super::{Session, Side, State};
use crate::{CloseReason, Event, JoinRefused, Misbehaviour, PeerFault};

impl Session {
    /// Whether a connection may join under this number. Asked before the connection is believed,
    /// and again when it is.
    pub fn check_join(&self, channel: ChannelId) -> Result<(), JoinRefused> {
        if self.channels.len() >= MAX_CHANNELS {
            return Err(JoinRefused::TooManyChannels(MAX_CHANNELS));
        }
        self.granted.check(channel)
    }

    /// Takes a number out of those that may be joined with, for a connection that has proved that
    /// it belongs here.
    pub fn reserve_join(&mut self, channel: ChannelId) -> Result<(), JoinRefused> {
        self.check_join(channel)?;
        self.granted.mark_used(channel);
        Ok(())
    }

    /// A channel number to join with; `None` until the gateway grants more. A number that was
    /// taken counts as used, even if the join fails.
    pub fn take_grant(&mut self) -> Option<ChannelId> {
        self.received_grants.take()
    }

    /// A number that was taken has failed: the gateway hears that it is used up.
    pub fn give_up_grant(&mut self, now: Instant, channel: ChannelId) {
        self.queue_command(&Command::ChannelClosed { channel });
        self.schedule(now);
    }

    /// Whether records may go out unsealed: this side and the peer both allow it.
    pub fn sends_plain(&self) -> bool {
        self.config.plain && self.peer_accepts_plain
    }

    /// Ends the session at once, whatever is under way. The peer is not told.
    pub fn abort(&mut self) {
        self.close_now(CloseReason::Abandoned);
    }

    /// Asks the gateway to keep this client's own key.
    pub fn enrol(&mut self, now: Instant, enrolment: Enrolment) {
        self.queue_command(&Command::Enrol(enrolment));
        self.schedule(now);
    }

    /// Tells the client that its key is kept.
    pub fn confirm_enrolment(&mut self, now: Instant) {
        self.queue_command(&Command::Enrolled);
        self.schedule(now);
    }

    /// Ends the session in order: no stream is opened any more; once the peer holds everything
    /// that was written, it is told, and [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant, code: u32) {
        if self.state == State::Open {
            self.state = State::Closing { code, told: false };
            self.check_close(now);
        }
    }

    /// Moves an orderly end on when the peer has caught up.
    pub(super) fn check_close(&mut self, now: Instant) {
        let State::Closing { code, told } = self.state else {
            return;
        };
        let caught_up = self.ledger.is_empty() && self.commands.queue.is_empty();
        let written_out = self
            .streams
            .values()
            .all(|stream| stream.send.queued() == 0);
        if !caught_up || !written_out {
            return;
        }
        if told {
            self.close_now(CloseReason::Local);
        } else {
            self.state = State::Closing { code, told: true };
            self.queue_command(&Command::Close { code });
            self.schedule(now);
        }
    }

    /// Says hello, ahead of whatever was queued before the first channel came.
    pub(super) fn greet(&mut self, first_link: LinkIndex) {
        let link = match self.side {
            Side::Client => first_link.value(),
            Side::Gateway => 0,
        };
        let queued = std::mem::take(&mut self.commands.queue);
        self.queue_command(&Command::Hello(Hello {
            max_streams: self.config.max_streams,
            accepts_plain: self.config.plain,
            takes_datagrams: true,
            link,
        }));
        self.commands.queue.extend_from_slice(&queued);
    }

    pub(super) fn replenish_grants(&mut self) {
        if self.side == Side::Gateway
            && let Some(grant) = self.granted.replenish()
        {
            self.queue_command(&Command::Grant(grant));
        }
    }

    pub(super) fn queue_command(&mut self, command: &Command) {
        command.encode(&mut self.commands.queue);
    }

    pub(super) fn on_command_chunk(
        &mut self,
        now: Instant,
        header: &ChunkHeader,
        payload: Bytes,
    ) -> Result<(), PeerFault> {
        let commands = &mut self.commands;
        // Commands are few and small: a copy frees the buffer that they came in.
        let payload = Bytes::copy_from_slice(&payload);
        let inserted = commands.inbound.insert(header.offset, payload, false);
        inserted.map_err(PeerFault::Misbehaved)?;
        if commands.inbound.held_charge() > MAX_COMMANDS_HELD {
            return Err(PeerFault::Misbehaved(Misbehaviour::CreditExceeded(
                header.stream,
            )));
        }
        while let Some((_, bytes, _)) = self.commands.inbound.pop(usize::MAX) {
            self.commands.decoder.push(&bytes);
            while let Some(command) = self.commands.decoder.next_command()? {
                self.on_command(now, command)?;
            }
        }
        Ok(())
    }

    fn on_command(&mut self, now: Instant, command: Command) -> Result<(), PeerFault> {
        if !self.commands.greeted && !matches!(command, Command::Hello(_)) {
            return Err(PeerFault::Misbehaved(Misbehaviour::NoHello));
        }
        match command {
            Command::Hello(hello) => self.on_hello(now, &hello)?,
            Command::Grant(grant) if self.side == Side::Client => {
                self.received_grants.add(&grant);
                self.events.push_back(Event::Granted(grant.addresses));
            }
            Command::Reset { stream, code } => self.on_reset(stream, code)?,
            Command::ChannelClosed { channel } if self.channels.contains_key(&channel) => {
                self.remove_channel(now, channel);
                self.events.push_back(Event::Dead(channel));
            }
            Command::Close { code } => self.close_now(CloseReason::Peer(code)),
            Command::Enrol(enrolment) if self.side == Side::Gateway => {
                self.events.push_back(Event::EnrolRequested(enrolment));
            }
            Command::Enrolled if self.side == Side::Client => {
                self.events.push_back(Event::Enrolled);
            }
            Command::LinkTerms(list) if self.side == Side::Gateway => {
                self.on_link_terms(now, &list)
            }
            Command::DatagramPort { port } if self.side == Side::Client => {
                self.events.push_back(Event::DatagramPort(port));
            }
            Command::Associate { channel, transport } if self.side == Side::Gateway => {
                self.on_associate(now, channel, transport)?;
            }
            Command::Grant(_)
            | Command::Enrol(_)
            | Command::Enrolled
            | Command::LinkTerms(_)
            | Command::DatagramPort { .. }
            | Command::Associate { .. } => {
                return Err(PeerFault::Misbehaved(Misbehaviour::WrongSide));
            }
            // A join that failed: its number is used up, and others are due.
            Command::ChannelClosed { channel }
                if self.side == Side::Gateway && self.granted.check(channel).is_ok() =>
            {
                self.granted.mark_used(channel);
                self.replenish_grants();
            }
            // An association that did not come about.
            Command::ChannelClosed { channel } if self.transports.announced == Some(channel) => {
                self.events.push_back(Event::Dead(channel));
            }
            // The channel is gone already. Unknown commands never get here.
            _ => {}
        }
        Ok(())
    }

    fn on_hello(&mut self, now: Instant, hello: &Hello) -> Result<(), PeerFault> {
        if std::mem::replace(&mut self.commands.greeted, true) {
            return Err(PeerFault::Misbehaved(Misbehaviour::Repeated));
        }
        self.peer_max_streams = hello.max_streams;
        self.peer_accepts_plain = hello.accepts_plain;
        self.datagrams.taken_by_peer = hello.takes_datagrams;
        if self.side == Side::Gateway
            && let Some(first) = self.channels.get_mut(&ChannelId::new(0))
        {
            let unknown = first.spec.link;
            first.spec.link = LinkIndex::new(hello.link);
            self.recorder.on_link_known(now, first.added(), unknown);
            self.account(LinkIndex::new(hello.link));
            self.apply_terms();
        }
        Ok(())
    }
}

/// Two for each of a great many paths.
const MAX_CHANNELS: usize = 64;
/// Commands that came out of order.
const MAX_COMMANDS_HELD: u64 = 128 * 1024;
