mod associations;
mod commands;
mod datagrams;
mod full_segments;
mod halves;
mod ingest;
mod liveness;
mod placing;
mod reinjection;
mod rules;
mod snapshots;
mod streams;
mod transmit;

use std::time::Duration;

use hawser_path::KernelSample;
use hawser_sched::Control;
use hawser_types::{ByteCount, ChannelId, Instant};

use crate::channel::{Channel, ChannelSpec};
use crate::channels::Channels;
use crate::command_stream::CommandStream;
use crate::config::SessionConfig;
use crate::datagrams::Datagrams;
use crate::duplicates::DuplicateBudget;
use crate::event::{CloseReason, Event, Events};
use crate::grant::{Granted, Received};
use crate::halves::Halves;
use crate::lifecycle::Lifecycle;
use crate::links::Links;
use crate::recorder::Recorder;
use crate::scheduling::Scheduling;
use crate::side::Side;
use crate::snapshot::Counters;
use crate::streams::Streams;
use crate::transports::Transports;
use crate::unacknowledged::Unacknowledged;

/// Everything between two hosts: channels that carry streams.
///
/// The contract: call one `handle_*` or stream method, then drain [`Session::poll_wake`] and
/// [`Session::poll_event`] to `None`; for each channel woken, and whenever a channel can take
/// more, drain [`Session::poll_transmit`]. Wait for [`Session::poll_timeout`], give fresh samples
/// of the busy channels, then call [`Session::handle_timeout`].
///
/// Each part owns its fields; the files below this one hold what needs several parts.
#[derive(Debug)]
pub struct Session {
    side: Side,
    config: SessionConfig,
    lifecycle: Lifecycle,
    channels: Channels,
    links: Links,
    transports: Transports,
    scheduling: Scheduling,
    streams: Streams,
    unacknowledged: Unacknowledged,
    duplicates: DuplicateBudget,
    commands: CommandStream,
    granted: Granted,
    received_grants: Received,
    datagrams: Datagrams,
    halves: Halves,
    events: Events,
    counters: Counters,
    recorder: Recorder,
}

impl Session {
    /// A session that has no channel yet.
    pub fn new(now: Instant, side: Side, config: SessionConfig) -> Self {
        let SessionConfig {
            receive_memory,
            send_memory,
            max_streams,
            ..
        } = config;
        Self {
            side,
            lifecycle: Lifecycle::new(now, config.survive),
            channels: Channels::default(),
            links: Links::new(config.channels_per_link),
            transports: Transports::new(),
            scheduling: Scheduling::new(config.scheduler, config.chunk_size),
            streams: Streams::new(side, receive_memory, send_memory, max_streams),
            unacknowledged: Unacknowledged::default(),
            duplicates: DuplicateBudget::default(),
            commands: CommandStream::new(),
            granted: Granted::new(),
            received_grants: Received::default(),
            datagrams: Datagrams::new(config.receive_memory),
            halves: Halves::default(),
            events: Events::default(),
            counters: Counters::default(),
            recorder: Recorder::new(now, config.recorder),
            config,
        }
    }

    /// Adds a channel whose connection is authenticated and carries records from now on. A
    /// gateway asks [`Session::check_join`] before it believes a connection that joins.
    pub fn add_channel(&mut self, now: Instant, spec: ChannelSpec) {
        if self.side == Side::Gateway {
            self.granted.mark_used(spec.id);
        }
        let says_hello = self.commands.say_hello();
        let channel = Channel::new(spec);
        self.recorder.on_added(now, &channel);
        self.channels.insert(channel);
        self.replace_suspects(now, spec.route(), spec.role);
        if self.channels.is_born_crawling(spec.route()) {
            self.suspect_crawling(now, spec.route());
        }
        self.warn_of_lost_segments(spec.id);
        let counts = self.side == Side::Client && !spec.is_association();
        self.links
            .on_channel(now, spec.link, &mut self.channels, counts);
        self.lifecycle.on_channel();
        if says_hello {
            self.greet(spec.link);
            self.prepare_streams();
        }
        self.replenish_grants();
        self.schedule(now);
    }

    /// Notes that the kernel would send more on a channel at once.
    pub fn handle_writable(&mut self, now: Instant, channel: ChannelId) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.outbound_mut().set_ready(true);
            self.schedule(now);
        }
    }

    /// Notes that the kernel would not send more on a channel now, or is not to be asked to.
    pub fn handle_full(&mut self, channel: ChannelId) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.outbound_mut().set_ready(false);
        }
    }

    /// Takes in a sample of the kernel.
    pub fn handle_sample(&mut self, now: Instant, id: ChannelId, sample: KernelSample) {
        if let Some(channel) = self.channels.get_mut(id) {
            let role = channel.role();
            let waits = self.streams.any_waiting(role) || self.unacknowledged.has_again(role);
            channel.on_demand(waits);
            let before = *channel.path().latest();
            channel.on_sample(now, sample);
            self.links.on_sample(now, channel, &before);
            self.recorder.on_sample(now, channel);
            self.streams.set_small(self.channels.carried_in(SMALL_TIME));
            self.check_recovery(now);
        }
    }

    /// Does what is due at a time that [`Session::poll_timeout`] named.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.look_after_channels(now);
        self.reset_unopened(now);
        self.channels.wake_due_acks(now);
        self.check_close(now);
        self.schedule(now);
    }

    /// Returns when [`Session::handle_timeout`] wants to be called; `None` while nothing can
    /// happen.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let acks = self.channels.iter().filter_map(Channel::ack_alarm);
        let open = !self.lifecycle.is_closed();
        acks.chain(self.lifecycle.look_at())
            .chain(self.scheduling.waits_until())
            .chain(self.lifecycle.abandoned_at())
            .chain(self.links.next_rest().filter(|_| open))
            .chain(self.streams.unopened_until().filter(|_| open))
            .min()
    }

    /// Returns a channel that has something to send.
    pub fn poll_wake(&mut self) -> Option<ChannelId> {
        self.channels.poll_wake()
    }

    /// Returns something that the driver or the application has to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.poll()
    }

    /// Returns the channels with something in flight: those whose samples matter.
    pub fn busy_channels(&self) -> impl Iterator<Item = ChannelId> {
        let busy = self.channels.iter().filter(|channel| channel.is_busy());
        busy.map(Channel::id)
    }

    /// Returns the unsent data that the kernel may hold for a channel before it counts as full.
    pub fn low_water(&self, channel: ChannelId) -> Option<u32> {
        let channel = self.channels.get(channel)?;
        Some(channel.low_water(self.config.chunk_size))
    }

    /// Returns the congestion control that a channel's connection should have; to be asked with
    /// every sample.
    pub fn choose_control(&mut self, now: Instant, channel: ChannelId) -> Option<Control> {
        let shortest = self.channels.shortest_path();
        let channel = self.channels.get_mut(channel)?;
        Some(channel.choose_control(now, shortest.unwrap_or(Duration::MAX)))
    }

    /// True if a channel should drain now: to spare it BBR's probe while another link carries on,
    /// to leave a slow link's queue to something interactive, or since its link is fresh.
    /// `in_flight`: bytes written to it that the peer's kernel has not acknowledged, asked only
    /// when it matters.
    pub fn holds(
        &mut self,
        now: Instant,
        id: ChannelId,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        let restrains = |channel: &Channel| {
            let (scheduling, channels) = (&self.scheduling, &self.channels);
            channels.overruns_fresh_link(channel, &in_flight)
                || scheduling.restrains(now, channel, channels, &in_flight)
        };
        if self.channels.get(id).is_some_and(restrains) {
            return true;
        }
        let Some(channel) = self.channels.get_mut(id) else {
            return false;
        };
        let link = channel.link();
        let (drains, began) = channel.drain(now, in_flight);
        let is_other = |other: &Channel| other.link() != link;
        let elsewhere = drains && self.channels.not_suspect().any(is_other);
        if began && elsewhere {
            // Chunks that wait for this channel have others now.
            self.handle_full(id);
            self.schedule(now);
        }
        elsewhere
    }

    /// True if the session has ended, by either side or for want of channels.
    pub fn is_closed(&self) -> bool {
        self.lifecycle.is_closed()
    }

    /// Returns the side that connected, of a channel that lives.
    pub fn begun_by(&self, channel: ChannelId) -> Option<Side> {
        Some(self.channels.get(channel)?.begun_by())
    }

    /// True if any channel is left.
    pub fn has_channels(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Returns the record of what was decided, and why.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn end(&mut self, reason: CloseReason) {
        if self.lifecycle.end() {
            self.scheduling.end_waits();
            self.events.push(Event::Closed(reason));
        }
    }
}

/// More than the links carry in this time is bulk.
const SMALL_TIME: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
