//! How much has moved, and how fast.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_session::ChannelSnapshot;
use hawser_types::{ByteCount, ChannelId, Rate};
use tokio::time::Instant;

use super::View;

/// An account of every session, entered once a second.
#[derive(Default)]
pub(super) struct Books {
    entered: Option<Instant>,
    sessions: BTreeMap<String, Account>,
}

/// What is known of one session.
pub(super) struct Account {
    /// When it was first seen.
    pub(super) begun: Instant,
    channels: BTreeMap<ChannelId, Channel>,
    /// What channels had moved that are gone.
    gone: Moved,
}

/// One channel at the last entry.
#[derive(Clone, Copy, Default)]
pub(super) struct Channel {
    last: Moved,
    pub(super) up: Rate,
    pub(super) down: Rate,
}

/// Bytes in both directions.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Books {
    /// Enters what the sessions have moved by now, and forgets those that are over.
    pub(super) fn enter(&mut self, now: Instant, views: &[View]) {
        let span = self.entered.map(|before| now - before).unwrap_or_default();
        self.entered = Some(now);
        let is_there = |id: &String| views.iter().any(|view| view.id == *id);
        self.sessions.retain(|id, _| is_there(id));
        for view in views {
            let account = self.sessions.entry(view.id.clone());
            let account = account.or_insert_with(|| Account::new(now));
            let channels = view.session.as_ref().map(|session| &session.channels);
            account.enter(span, channels.map_or(&[], Vec::as_slice));
        }
    }

    /// What is known of the session `id`.
    pub(super) fn account(&self, id: &str) -> Option<&Account> {
        self.sessions.get(id)
    }
}

impl Account {
    fn new(begun: Instant) -> Self {
        Self {
            begun,
            channels: BTreeMap::new(),
            gone: Moved::default(),
        }
    }

    fn enter(&mut self, span: Duration, channels: &[ChannelSnapshot]) {
        let gone = &mut self.gone;
        self.channels.retain(|id, channel| {
            let is_there = channels.iter().any(|now| now.id == *id);
            if !is_there {
                gone.add(channel.last);
            }
            is_there
        });
        for now in channels {
            let moved = Moved::of(now);
            // One that came since the last entry has moved all of it since then.
            let channel = self.channels.entry(now.id).or_default();
            let rate = |now: u64, before: u64| match span.is_zero() {
                true => Rate::default(),
                false => Rate::over(ByteCount::new(now.saturating_sub(before)), span),
            };
            *channel = Channel {
                last: moved,
                up: rate(moved.sent, channel.last.sent),
                down: rate(moved.received, channel.last.received),
            };
        }
    }

    /// What the channel moves now.
    pub(super) fn channel(&self, id: ChannelId) -> Channel {
        self.channels.get(&id).copied().unwrap_or_default()
    }

    /// What the session has moved by channels that are gone.
    pub(super) fn gone(&self, channels: &[ChannelSnapshot]) -> Moved {
        let mut gone = self.gone;
        for (id, channel) in &self.channels {
            if channels.iter().all(|now| now.id != *id) {
                gone.add(channel.last);
            }
        }
        gone
    }
}

impl Moved {
    pub(super) fn of(channel: &ChannelSnapshot) -> Self {
        Self {
            sent: channel.sent.as_u64(),
            received: channel.received.as_u64(),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
    }
}

#[cfg(test)]
mod tests {
    use hawser_session::SessionSnapshot;
    use hawser_types::LinkIndex;

    use super::*;

    fn view(channels: &[(u32, u64)]) -> View {
        let channel = |&(id, sent): &(u32, u64)| ChannelSnapshot {
            id: ChannelId::new(id),
            role: hawser_wire::ChannelRole::Bulk,
            link: LinkIndex::new(2),
            suspect: false,
            rtt: Duration::ZERO,
            rate: Rate::default(),
            congestion_window: ByteCount::ZERO,
            in_flight: ByteCount::ZERO,
            sent: ByteCount::new(sent),
            received: ByteCount::new(2 * sent),
            retransmissions: 0,
            incoming_queue: None,
            peer: None,
        };
        View {
            id: "s".to_owned(),
            peer: String::new(),
            ways: BTreeMap::new(),
            scheduler: "",
            congestion: String::new(),
            session: Some(SessionSnapshot {
                channels: channels.iter().map(channel).collect(),
                links: Vec::new(),
                streams: Vec::new(),
                stream_count: 0,
                counters: hawser_session::Counters::default(),
                unacknowledged: ByteCount::ZERO,
                credit_lent: ByteCount::ZERO,
            }),
        }
    }

    #[test]
    fn rates_are_of_the_last_second_and_nothing_moved_is_forgotten() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut books = Books::default();
        books.enter(at(0), &[view(&[(0, 1000)])]);
        books.enter(at(1), &[view(&[(0, 4000), (4, 500)])]);
        let account = books.account("s").unwrap();
        let rate = |id| account.channel(ChannelId::new(id));
        assert_eq!(rate(0).up.bytes_per_second(), 3000);
        assert_eq!(rate(0).down.bytes_per_second(), 6000);
        assert_eq!(rate(4).up.bytes_per_second(), 500);
        // A channel that died since the last entry, and one that died before it.
        assert_eq!(account.gone(&[]).sent, 4500);
        books.enter(at(2), &[view(&[(4, 500)])]);
        let account = books.account("s").unwrap();
        assert_eq!(account.gone(&[]).received, 9000);
        assert_eq!(account.channel(ChannelId::new(4)).up, Rate::default());
        books.enter(at(3), &[]);
        assert!(books.account("s").is_none());
    }
}
