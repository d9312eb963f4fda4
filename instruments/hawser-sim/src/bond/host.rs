//! One host: its session and its channels over TCP.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hawser_channels::association::PathLinks;
use hawser_session::{ChannelSpec, Event, Session, Side};
use hawser_types::{ChannelId, Instant, LinkIndex};

use super::connections::Connections;
use super::token::Token;
use super::writer::Writer;
use crate::network::{End, Network};

/// What one side keeps.
pub(super) struct Host {
    side: Side,
    session: Session,
    writers: BTreeMap<ChannelId, Writer>,
    /// The links below the paths of associations.
    path_links: PathLinks,
    /// When the session's timer is planned.
    timer_at: Option<Instant>,
    /// Something changed that the keepers look at.
    changed: bool,
}

impl Host {
    pub(super) fn new(side: Side, session: Session) -> Self {
        Self {
            side,
            session,
            writers: BTreeMap::new(),
            path_links: PathLinks::new(side),
            timer_at: None,
            changed: false,
        }
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    pub(super) const fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The session, with the links below the paths of associations.
    pub(super) const fn session_and_links(&mut self) -> (&mut Session, &mut PathLinks) {
        (&mut self.session, &mut self.path_links)
    }

    /// A channel's writer, with the session that it writes for.
    pub(super) fn writer_mut(&mut self, id: ChannelId) -> Option<(&mut Writer, &mut Session)> {
        let writer = self.writers.get_mut(&id)?;
        Some((writer, &mut self.session))
    }

    pub(super) fn writer(&self, id: ChannelId) -> Option<&Writer> {
        self.writers.get(&id)
    }

    /// How many channels over TCP it has.
    pub(super) fn channels(&self) -> usize {
        self.writers.len()
    }

    /// A channel has come, at this end of a connection, over a link of the client with this
    /// address.
    pub(super) fn add_channel(
        &mut self,
        network: &Network,
        end: End,
        spec: ChannelSpec,
        (link, address): (LinkIndex, IpAddr),
    ) {
        let (now, id) = (network.now(), spec.id);
        let writer = Writer::new(end, now, id, network.written(end));
        self.writers.insert(id, writer);
        self.changed = true;
        if self.path_links.learn(link, Some(address)) {
            self.path_links.mark_stale();
        }
        self.session.add_channel(now, spec);
        self.session.handle_sample(now, id, network.sample(end));
        self.session.handle_writable(now, id);
    }

    /// Takes note of an event of the session. Returns the writer of a channel that it ends.
    pub(super) fn on_event(&mut self, event: &Event) -> Option<Writer> {
        match event {
            Event::Dead(id) => {
                self.changed = true;
                return self.writers.remove(id);
            }
            Event::Granted(_) | Event::Spread(_) | Event::Closed(_) => self.changed = true,
            _ => {}
        }
        None
    }

    /// True once after a change that the keepers look at.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Hands the session the records that have come over a channel's connection. Returns true if
    /// there was any.
    pub(super) fn take_records(
        &mut self,
        network: &Network,
        connections: &mut Connections,
        end: End,
        id: ChannelId,
    ) -> bool {
        let (now, arrived) = (network.now(), network.arrived(end));
        let mut took = false;
        while let Some(record) = connections.pop_record(end, self.side, arrived) {
            took = true;
            if let Err(fault) = self.session.handle_record(now, id, record) {
                // Sessions of one program never misunderstand each other.
                unreachable!("{fault}");
            }
        }
        took
    }

    /// A channel's connection is over, as this side sees it. Returns false if it has no such
    /// channel.
    pub(super) fn lose_channel(&mut self, now: Instant, id: ChannelId) -> bool {
        let had = self.writers.remove(&id).is_some();
        if had {
            self.session.handle_channel_lost(now, id);
            self.changed = true;
        }
        had
    }

    /// The alarm of the session's timer has come. Returns true if the timer is due.
    pub(super) fn on_alarm(&mut self, now: Instant) -> bool {
        self.timer_at.take_if(|at| *at <= now);
        self.session.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Tells the session what the kernel says of a channel over TCP. Returns false if it has no
    /// such channel.
    pub(super) fn sample(&mut self, network: &Network, id: ChannelId) -> bool {
        let sample = self.writers.get(&id).map(|writer| writer.sample(network));
        if let Some(sample) = sample {
            self.session.handle_sample(network.now(), id, sample);
        }
        sample.is_some()
    }

    /// Plans the session's timer.
    pub(super) fn plan_timer(&mut self, network: &mut Network) {
        let Some(at) = self.session.poll_timeout() else {
            return;
        };
        if self.timer_at.is_none_or(|planned| at < planned) {
            // tokio's timers have a resolution of a millisecond, rounded up.
            let at = Instant::from_nanos(at.as_nanos().next_multiple_of(1_000_000));
            self.timer_at = Some(at);
            network.set_alarm(at, Token::Timer(self.side).pack());
        }
    }
}
