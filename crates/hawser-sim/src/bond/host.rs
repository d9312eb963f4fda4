//! One host: its session, and what the driver does for it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hawser_channels::association::PathLinks;
use hawser_session::{Event, Session, Side};
use hawser_types::{ChannelId, Instant, LinkIndex};

use super::keeper::Keeper;
use super::writer::Writer;
use super::{Bond, Signal, Stage, Token, place, side_of};
use crate::network::End;

/// What one side keeps.
pub(super) struct Host {
    pub(super) side: Side,
    pub(super) session: Session,
    pub(super) writers: BTreeMap<ChannelId, Writer>,
    /// The links below the paths of associations.
    pub(super) path_links: PathLinks,
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

    /// A channel has come, over a link of the client with this address.
    pub(super) fn learn_link(&mut self, link: LinkIndex, address: IpAddr) {
        self.changed = true;
        if self.path_links.learn(link, Some(address)) {
            self.path_links.mark_stale();
        }
    }
}

impl Bond {
    /// Hands out what a session has to say after it was worked on, and lets writers write.
    pub(super) fn settle(&mut self, side: Side) {
        let index = place(side);
        loop {
            let host = &mut self.hosts[index];
            if let Some(id) = host.session.poll_wake() {
                if let Some(writer) = host.writers.get_mut(&id) {
                    writer.notified = true;
                }
                if !self.wake_association(side, id) {
                    self.write_if_woken(side, id);
                }
                continue;
            }
            let Some(event) = host.session.poll_event() else {
                break;
            };
            self.on_event(side, event);
        }
        self.plan_timer(side);
        if std::mem::take(&mut self.hosts[index].changed) && side == Side::Client {
            for link in 0..self.keepers.len() {
                self.on_change(link);
            }
            self.begin_association();
        }
    }

    fn on_event(&mut self, side: Side, event: Event) {
        let host = &mut self.hosts[place(side)];
        match &event {
            Event::Dead(id) => {
                host.changed = true;
                if let Some(writer) = host.writers.remove(id) {
                    self.network.close(writer.end, true);
                }
                self.end_association(*id);
            }
            Event::AssociationExpected(id) => self.expect_association(*id),
            Event::RulesChanged => self.tell_links(side),
            Event::Granted(_) | Event::Spread(_) | Event::Closed(_) => host.changed = true,
            _ => {}
        }
        self.signals.push_back(Signal::Event(side, event));
    }

    /// A channel's connection has moved.
    pub(super) fn on_channel(&mut self, end: End, id: ChannelId) {
        let side = side_of(end);
        let host = &self.hosts[place(side)];
        if host.writers.get(&id).is_none_or(|writer| writer.end != end) {
            return;
        }
        let arrived = self.network.arrived(end);
        let inbound = self.uses.get_mut(&end.connection);
        let Some(records) = inbound.map(|used| &mut used.records[place(side)]) else {
            return;
        };
        let mut took = false;
        let now = self.network.now();
        while records
            .front()
            .is_some_and(|(position, _)| *position <= arrived)
        {
            let Some((_, body)) = records.pop_front() else {
                break;
            };
            took = true;
            let session = &mut self.hosts[place(side)].session;
            if let Err(fault) = session.handle_record(now, id, body) {
                // Sessions of one program never misunderstand each other.
                unreachable!("{fault}");
            }
        }
        if took {
            self.settle(side);
        }
        if self.network.is_closed(end) {
            return self.lose_channel(side, id);
        }
        self.write_if_writable(side, id);
    }

    /// A channel's connection is over, as this side sees it.
    pub(super) fn lose_channel(&mut self, side: Side, id: ChannelId) {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        if host.writers.remove(&id).is_some() {
            host.session.handle_channel_lost(now, id);
            host.changed = true;
            self.settle(side);
        }
    }

    fn client_has(&self, id: ChannelId) -> bool {
        self.hosts[place(Side::Client)].writers.contains_key(&id)
    }

    /// A session's timer may be due.
    pub(super) fn fire(&mut self, side: Side) {
        let now = self.network.now();
        let host = &mut self.hosts[place(side)];
        if host.timer_at.is_some_and(|at| at <= now) {
            host.timer_at = None;
        }
        if host.session.poll_timeout().is_some_and(|at| at <= now) {
            let busy: Vec<_> = host.session.busy_channels().collect();
            for id in busy {
                let host = &mut self.hosts[place(side)];
                if let Some(writer) = host.writers.get(&id) {
                    let sample = writer.sample(&self.network);
                    host.session.handle_sample(now, id, sample);
                } else {
                    self.sample_association(side, id);
                }
            }
            let host = &mut self.hosts[place(side)];
            host.session.handle_timeout(now);
            self.settle(side);
        } else {
            self.plan_timer(side);
        }
    }

    fn plan_timer(&mut self, side: Side) {
        let host = &mut self.hosts[place(side)];
        let Some(at) = host.session.poll_timeout() else {
            return;
        };
        if host.timer_at.is_none_or(|planned| at < planned) {
            // tokio's timers have a resolution of a millisecond, rounded up.
            let at = Instant::from_nanos(at.as_nanos().next_multiple_of(1_000_000));
            host.timer_at = Some(at);
            self.network.set_alarm(at, Token::Timer(host.side).pack());
        }
    }

    /// Every channel of a link goes at once, since its carrier or its address has.
    pub(super) fn lose_link(&mut self, link: usize, carrier: bool) {
        // A link that comes back, or has another address, begins anew.
        self.keepers[link] = Keeper::new(self.network.now(), None);
        self.keepers[link].up = false;
        let on_link = self.uses.iter().filter(|(_, used)| used.link == link);
        let connections: Vec<_> = on_link
            .map(|(connection, used)| (*connection, used.stage))
            .collect();
        for (connection, stage) in connections {
            let end = End {
                connection,
                client: true,
            };
            if carrier {
                self.network.close(end, false);
            } else {
                self.network.orphan(end);
            }
            match stage {
                Stage::Channel(id) | Stage::Joining(id, _) if self.client_has(id) => {
                    self.lose_channel(Side::Client, id);
                }
                Stage::Joining(..) | Stage::Connecting => self.abandon(end),
                _ => {}
            }
        }
    }
}
