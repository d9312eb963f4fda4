//! The command stream: greetings, grants, resets, enrolment and the orderly end.

use hawser_types::{ChannelId, Instant, LinkIndex, MIN_JOIN_PORT};
use hawser_wire::{ChunkHeader, Command, Enrolment, Hello};

use super::Session;
use crate::channels::Channels;
use crate::error::{Misbehaviour, PeerFault};
use crate::event::{CloseReason, Event, Limit};
use crate::grant::JoinRefused;
use crate::side::Side;
use crate::stream::Stream;

impl Session {
    /// Checks whether a connection may join under this number. Asked before the connection is
    /// believed, and again when it is.
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

    /// Returns a channel number to join with; `None` until the gateway grants more. A number that
    /// was taken counts as used, even if the join fails.
    pub fn take_grant(&mut self) -> Option<ChannelId> {
        self.received_grants.take()
    }

    /// Tells the gateway that a number is used up, since the join with it has failed.
    pub fn give_up_grant(&mut self, now: Instant, channel: ChannelId) {
        self.command(&Command::ChannelClosed { channel });
        self.schedule(now);
    }

    /// Tells the gateway that connections of its own may join at this TCP port of the addresses
    /// that this client's connections come from. For clients, once; a port below
    /// [`MIN_JOIN_PORT`] is not told.
    pub fn accept_joins(&mut self, now: Instant, port: u16) {
        if port >= MIN_JOIN_PORT {
            self.command(&Command::AcceptsJoins { port });
            self.schedule(now);
        }
    }

    /// Asks the client to begin another session, by connecting anew, and to open streams there from
    /// now on. Streams of this session are served to their end, and so are those that the client
    /// still opens here. For gateways; only the first call tells.
    pub fn go_away(&mut self, now: Instant) {
        if self.side == Side::Gateway && self.lifecycle.begin_to_go_away() {
            self.command(&Command::GoingAway);
            self.schedule(now);
        }
    }

    /// True if the gateway goes away: a client begins another session.
    pub fn is_going_away(&self) -> bool {
        self.lifecycle.is_going_away()
    }

    /// True if records may go out unsealed: this side and the peer both allow it.
    pub fn sends_plain(&self) -> bool {
        self.config.plain && self.commands.peer_accepts_plain()
    }

    /// Ends the session at once, whatever is in flight. The peer is not told.
    pub fn abort(&mut self) {
        self.end(CloseReason::Abandoned);
    }

    /// Asks the gateway to keep this client's own key.
    pub fn enrol(&mut self, now: Instant, enrolment: Enrolment) {
        self.commands.push(&Command::Enrol(enrolment));
        self.schedule(now);
    }

    /// Tells the client that its key is kept.
    pub fn confirm_enrolment(&mut self, now: Instant) {
        self.commands.push(&Command::Enrolled);
        self.schedule(now);
    }

    /// Ends the session in order: no stream is opened any more; once the peer holds everything
    /// that was written, it is told, and [`Event::Closed`] follows.
    pub fn close(&mut self, now: Instant, code: u32) {
        if self.lifecycle.begin_to_close(code) {
            self.check_close(now);
        }
    }

    /// As [`Session::close`], for a reason of the application's: the peer hears its code and a text
    /// for people, of which the first [`MAX_CLOSE_REASON`](hawser_wire::MAX_CLOSE_REASON) bytes.
    pub fn close_because(&mut self, now: Instant, code: u32, text: &str) {
        if self.lifecycle.is_open() {
            let text = text.to_owned();
            self.commands.push(&Command::CloseReason { code, text });
            self.schedule(now);
            self.close(now, 0);
        }
    }

    /// Moves an orderly end on when the peer has caught up.
    pub(super) fn check_close(&mut self, now: Instant) {
        let Some((code, told)) = self.lifecycle.closing() else {
            return;
        };
        let caught_up = self.unacknowledged.is_empty() && self.commands.is_empty();
        let is_written_out = |stream: &Stream| stream.send().queued() == 0;
        let written_out = self.streams.iter().all(|(_, it)| is_written_out(it));
        if !caught_up || !written_out {
            return;
        }
        if told {
            self.end(CloseReason::Local);
        } else {
            self.lifecycle.on_told();
            self.commands.push(&Command::Close { code });
            self.schedule(now);
        }
    }

    /// Says hello, ahead of all that was queued before the first channel came.
    pub(super) fn greet(&mut self, first_link: LinkIndex) {
        let link = match self.side {
            Side::Client => first_link.value(),
            Side::Gateway => 0,
        };
        self.commands.push_hello(Hello {
            max_streams: self.streams.allow_by_memory(),
            accepts_plain: self.config.plain,
            takes_datagrams: true,
            ends_halves: true,
            follows_scheduler: self.follows_scheduler(),
            knows_signals: self.side == Side::Gateway,
            link,
        });
    }

    /// Queues a command. Ends the session where too many wait: only a peer that causes them and
    /// acknowledges none lets it come to that.
    pub(super) fn command(&mut self, command: &Command) {
        if !self.commands.push_bounded(command) {
            self.end(CloseReason::LimitExceeded(Limit::Commands));
        }
    }

    /// Grants more channels, when it is time to.
    pub(super) fn replenish_grants(&mut self) {
        if self.side == Side::Gateway
            && let Some(grant) = self.granted.replenish()
        {
            self.command(&Command::Grant(grant));
        }
    }

    /// Takes in a chunk of the peer's commands, and does what they say.
    pub(super) fn on_command_chunk(
        &mut self,
        now: Instant,
        header: &ChunkHeader,
        payload: &[u8],
    ) -> Result<(), PeerFault> {
        let taken = self.commands.on_chunk(header, payload);
        taken.map_err(PeerFault::Misbehaved)?;
        while let Some(command) = self.commands.next_command()? {
            self.on_command(now, command)?;
        }
        Ok(())
    }

    fn on_command(&mut self, now: Instant, command: Command) -> Result<(), PeerFault> {
        if !self.commands.is_greeted() && !matches!(command, Command::Hello(_)) {
            return Err(PeerFault::Misbehaved(Misbehaviour::NoHello));
        }
        match command {
            Command::Hello(hello) => self.on_hello(now, &hello)?,
            Command::Grant(grant) if self.side == Side::Client => {
                self.received_grants.add(&grant);
                self.events.push(Event::Granted(grant.addresses));
            }
            Command::Reset { stream, code } => self.on_reset(stream, code)?,
            Command::ChannelClosed { channel } => self.on_channel_closed(now, channel),
            Command::Stop { stream, code } => self.on_stop(now, stream, code)?,
            Command::ResetSending { stream, code } => self.on_reset_sending(now, stream, code)?,
            Command::CloseReason { code, text } => self.events.push(Event::CloseReason(code, text)),
            Command::Close { code } => self.end(CloseReason::Peer(code)),
            Command::Enrol(enrolment) if self.side == Side::Gateway => {
                self.events.push(Event::EnrolRequested(enrolment));
            }
            Command::Enrolled if self.side == Side::Client => self.events.push(Event::Enrolled),
            Command::LinkRules(list) if self.side == Side::Gateway => {
                self.on_link_rules(now, &list);
            }
            Command::Scheduler { policy } if self.side == Side::Gateway => {
                self.on_scheduler(now, policy);
            }
            Command::DatagramPort { port } if self.side == Side::Client => {
                self.events.push(Event::DatagramPort(port));
            }
            Command::AcceptsJoins { port } if self.side == Side::Gateway => {
                self.events.push(Event::JoinsAccepted(port));
            }
            Command::Associate { channel, transport } if self.side == Side::Gateway => {
                self.on_associate(now, channel, transport)?;
            }
            Command::GoingAway if self.side == Side::Client => {
                let is_news = self.lifecycle.begin_to_go_away();
                self.events.extend(is_news.then_some(Event::GoingAway));
            }
            Command::Grant(_)
            | Command::Enrol(_)
            | Command::Enrolled
            | Command::LinkRules(_)
            | Command::Scheduler { .. }
            | Command::DatagramPort { .. }
            | Command::AcceptsJoins { .. }
            | Command::Associate { .. }
            | Command::GoingAway => {
                return Err(PeerFault::Misbehaved(Misbehaviour::WrongSide));
            }
            // Unknown commands never get here.
            _ => {}
        }
        Ok(())
    }

    fn on_hello(&mut self, now: Instant, hello: &Hello) -> Result<(), PeerFault> {
        let taken = self.commands.on_hello(hello);
        taken.map_err(PeerFault::Misbehaved)?;
        self.streams.set_allowed_by_peer(hello.max_streams);
        self.tell_scheduler();
        self.tell_rules();
        self.tell_ended_before_hello(now);
        if self.side == Side::Gateway
            && let Some(first) = self.channels.get_mut(ChannelId::new(0))
        {
            let link = LinkIndex::new(hello.link);
            let unknown = first.set_link(link);
            self.recorder.on_link_known(now, first, unknown);
            self.links.on_link_known(link, &mut self.channels);
        }
        Ok(())
    }

    /// Takes note that the peer gives a channel up, or a number.
    fn on_channel_closed(&mut self, now: Instant, channel: ChannelId) {
        if let Some(closed) = self.channels.get(channel) {
            if closed.is_suspect() && self.channels.link_is_heard(closed) {
                self.blame_full_segments(now, channel, Channels::stalled_from_the_start);
            }
            self.remove_channel(now, channel);
            self.events.push(Event::Dead(channel));
        } else if self.side == Side::Gateway && self.granted.check(channel).is_ok() {
            // A join that failed: its number is used up, and others are due.
            self.granted.mark_used(channel);
            self.replenish_grants();
        } else if self.transports.announced() == Some(channel) {
            // An association that did not come about.
            self.events.push(Event::Dead(channel));
        }
    }
}

/// Two for each of a great many paths.
const MAX_CHANNELS: usize = 64;
