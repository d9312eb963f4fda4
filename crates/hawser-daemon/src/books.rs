//! Amounts and rates of the traffic.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_session::{ChannelSnapshot, FlowEnds, PacketFlow, SessionSnapshot, StreamSnapshot};
use hawser_types::{ChannelId, LinkIndex, Rate, StreamId};
use tokio::time::Instant;

use super::meter::{Meter, Moved};
use super::subject::View;

/// The traffic accounts of all sessions, updated once a second.
#[derive(Default)]
pub(super) struct Books {
    entered: Option<Instant>,
    sessions: BTreeMap<String, Account>,
}

/// The account of one session.
pub(super) struct Account {
    /// Time at which the session was first seen.
    pub(super) begun: Instant,
    /// Traffic by channel and link: an association has one entry for each of its links.
    channels: BTreeMap<(ChannelId, LinkIndex), Meter>,
    streams: BTreeMap<StreamId, Meter>,
    packet_flows: BTreeMap<FlowEnds, Meter>,
    /// Number of streams, or of flows of packets if these are more; counts unlisted ones, too.
    stream_count: usize,
    /// Traffic of closed channels.
    gone: Moved,
}

impl Books {
    /// Updates the accounts to the sessions' current totals, and removes those of ended sessions.
    /// Returns the time since the last update.
    pub(super) fn enter(&mut self, now: Instant, views: &[View]) -> Duration {
        let span = self.entered.map(|before| now - before).unwrap_or_default();
        self.entered = Some(now);
        let mut before = std::mem::take(&mut self.sessions);
        for view in views {
            let account = before.remove(&view.id);
            let mut account = account.unwrap_or_else(|| Account::new(now));
            if let Some(session) = &view.session {
                account.enter(span, session);
            }
            self.sessions.insert(view.id.clone(), account);
        }
        span
    }

    /// Returns the names of the `count` sessions with the highest rates at the last update.
    pub(super) fn busiest(&self, count: usize) -> BTreeSet<String> {
        let rate = |account: &Account| -> Rate {
            let meters = account.channels.values();
            meters.map(|meter| meter.up + meter.down).sum()
        };
        let all = self.sessions.iter();
        let mut all: Vec<_> = all.map(|(id, it)| (Reverse(rate(it)), id)).collect();
        all.sort_unstable();
        let busiest = all.into_iter().take(count);
        busiest.map(|(_, id)| id.clone()).collect()
    }

    /// Returns the numbers of streams that the sessions with `wanted` names had at the last update.
    pub(super) fn stream_counts(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let all = self.sessions.iter().filter(|(id, _)| wanted(id));
        all.map(|(_, account)| account.stream_count).collect()
    }

    /// Returns the account of the session `id`.
    pub(super) fn account(&self, id: &str) -> Option<&Account> {
        self.sessions.get(id)
    }
}

impl Account {
    fn new(begun: Instant) -> Self {
        Self {
            begun,
            channels: BTreeMap::new(),
            streams: BTreeMap::new(),
            packet_flows: BTreeMap::new(),
            stream_count: 0,
            gone: Moved::default(),
        }
    }

    fn enter(&mut self, span: Duration, session: &SessionSnapshot) {
        let channels = &session.channels;
        let gone = &mut self.gone;
        self.channels.retain(|id, channel| {
            let is_there = channels.iter().any(|now| key(now) == *id);
            if !is_there {
                gone.add(channel.last);
            }
            is_there
        });
        for now in channels {
            let meter = self.channels.entry(key(now)).or_default();
            meter.enter(moved(now), span);
        }
        self.stream_count = session.stream_count.max(session.flow_count);
        self.enter_packet_flows(span, session);
        let mut before = std::mem::take(&mut self.streams);
        for now in &session.streams {
            let moved = Moved::new(now.sent, now.received);
            let meter = before.remove(&now.id);
            self.streams
                .insert(now.id, entered(meter, moved, now.age, span));
        }
    }

    fn enter_packet_flows(&mut self, span: Duration, session: &SessionSnapshot) {
        let mut before = std::mem::take(&mut self.packet_flows);
        for now in &session.flows {
            let moved = Moved::new(now.tally.sent, now.tally.received);
            let meter = before.remove(&now.ends);
            self.packet_flows
                .insert(now.ends, entered(meter, moved, now.age, span));
        }
    }

    /// Returns the channel's current traffic.
    pub(super) fn channel(&self, channel: &ChannelSnapshot) -> Meter {
        let meter = self.channels.get(&key(channel));
        meter.copied().unwrap_or_default()
    }

    /// Returns the stream's current rate, both directions together; zero until the stream was seen
    /// for a second.
    pub(super) fn stream(&self, stream: &StreamSnapshot) -> Rate {
        let meter = self.streams.get(&stream.id);
        meter.map_or(Rate::ZERO, |meter| meter.up + meter.down)
    }

    /// Returns the current rate of a flow of packets, like [`Self::stream`].
    pub(super) fn packet_flow(&self, flow: &PacketFlow) -> Rate {
        let meter = self.packet_flows.get(&flow.ends);
        meter.map_or(Rate::ZERO, |meter| meter.up + meter.down)
    }

    /// Returns the traffic of the session's closed channels.
    pub(super) fn gone(&self, channels: &[ChannelSnapshot]) -> Moved {
        let mut gone = self.gone;
        for (id, channel) in &self.channels {
            if channels.iter().all(|now| key(now) != *id) {
                gone.add(channel.last);
            }
        }
        gone
    }
}

/// Returns the meter of a stream or flow that began `age` ago and has `moved` these bytes since;
/// `before` is its meter at the last update.
fn entered(before: Option<Meter>, moved: Moved, age: Duration, span: Duration) -> Meter {
    // A stream that was not listed before may be old: its past traffic is no current rate.
    let begun = || {
        if age > span.saturating_mul(2) {
            Meter::at(moved)
        } else {
            Meter::default()
        }
    };
    let mut meter = before.unwrap_or_else(begun);
    meter.enter(moved, span);
    meter
}

/// Returns the traffic of a channel.
pub(super) fn moved(channel: &ChannelSnapshot) -> Moved {
    Moved::new(channel.sent, channel.received)
}

/// Returns a key that identifies the channel.
pub(super) fn key(channel: &ChannelSnapshot) -> (ChannelId, LinkIndex) {
    (channel.id, channel.link)
}

#[cfg(test)]
pub(super) mod tests {
    use hawser_types::ByteCount;

    use super::super::subject::PathFacts;
    use super::*;

    /// A session named `s` over the link `dsl`, whose number is 2, with channels that have sent so
    /// much and received twice that, and streams that have received so much.
    pub(in super::super) fn view(channels: &[(u32, u64)], streams: &[(u64, u64)]) -> View {
        let channel = |&(id, sent): &(u32, u64)| ChannelSnapshot {
            id: ChannelId::new(id),
            role: hawser_wire::ChannelRole::Bulk,
            transport: Default::default(),
            link: LinkIndex::new(2),
            suspect: false,
            silent_for: None,
            unheard_for: None,
            rtt: Duration::ZERO,
            rate: Rate::default(),
            congestion_window: ByteCount::ZERO,
            in_flight: ByteCount::ZERO,
            sent: ByteCount::new(sent),
            received: ByteCount::new(2 * sent),
            retransmissions: 0,
            segments_delivered: None,
            incoming_queue: None,
            peer: None,
        };
        let stream = |&(id, received): &(u64, u64)| StreamSnapshot {
            id: StreamId::new(id),
            metadata: Default::default(),
            sent: ByteCount::ZERO,
            queued: ByteCount::ZERO,
            received: ByteCount::new(received),
            readable: ByteCount::ZERO,
            age: Duration::from_secs(1),
        };
        let way = PathFacts {
            link: "dsl".to_owned(),
            ..PathFacts::default()
        };
        View {
            id: "s".to_owned(),
            peer: String::new(),
            paths: BTreeMap::from([(2, way)]),
            scheduler: "",
            congestion: String::new(),
            addresses: BTreeMap::new(),
            is_with_gateway: false,
            is_left: false,
            problem: None,
            transport_problem: None,
            names: BTreeMap::new(),
            session: Some(SessionSnapshot {
                channels: channels.iter().map(channel).collect(),
                transport: Default::default(),
                links: Vec::new(),
                streams: streams.iter().map(stream).collect(),
                scheduler: Default::default(),
                peer_follows_scheduler: None,
                stream_count: streams.len(),
                counters: hawser_session::Counters::default(),
                unsent: ByteCount::ZERO,
                unacknowledged: ByteCount::ZERO,
                credit_lent: ByteCount::ZERO,
                held: ByteCount::ZERO,
                packet_scheduler: Default::default(),
                tunnel: Default::default(),
                flows: Vec::new(),
                flow_count: 0,
            }),
        }
    }

    #[test]
    fn rates_are_of_the_last_second_and_nothing_moved_is_forgotten() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut books = Books::default();
        books.enter(at(0), &[view(&[(0, 1000)], &[])]);
        books.enter(at(1), &[view(&[(0, 4000), (4, 500)], &[])]);
        let account = books.account("s").unwrap();
        let snapshot = |id| view(&[(id, 0)], &[]).session.unwrap().channels.remove(0);
        let rate = |id| account.channel(&snapshot(id));
        assert_eq!(rate(0).up.bytes_per_second(), 3000);
        assert_eq!(rate(0).down.bytes_per_second(), 6000);
        assert_eq!(rate(4).up.bytes_per_second(), 500);
        // One channel closed since the last update, and one before it.
        assert_eq!(account.gone(&[]).sent, 4500);
        books.enter(at(2), &[view(&[(4, 500)], &[])]);
        let account = books.account("s").unwrap();
        assert_eq!(account.gone(&[]).received, 9000);
        assert_eq!(account.channel(&snapshot(4)).up, Rate::default());
        books.enter(at(3), &[]);
        assert!(books.account("s").is_none());
    }

    #[test]
    fn an_old_stream_that_is_listed_anew_has_not_moved_all_of_it_now() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let rates = |books: &Books, view: &View| -> Vec<u64> {
            let account = books.account("s").unwrap();
            let streams = view.session.iter().flat_map(|session| &session.streams);
            let rates = streams.map(|stream| account.stream(stream));
            rates.map(Rate::bytes_per_second).collect()
        };
        let mut books = Books::default();
        books.enter(at(0), &[view(&[], &[(4, 100)])]);
        let mut both = view(&[], &[(4, 150), (8, 70_000)]);
        books.enter(at(1), std::slice::from_ref(&both));
        assert_eq!(rates(&books, &both), [50, 70_000], "8 is a new one");
        let mut books = Books::default();
        books.enter(at(0), &[view(&[], &[(4, 100)])]);
        both.session.as_mut().unwrap().streams[1].age = Duration::from_secs(60);
        books.enter(at(1), std::slice::from_ref(&both));
        assert_eq!(rates(&books, &both), [50, 0]);
    }
}
