//! Accounts of each link: its traffic and its effect on the whole, for status, usage, governor.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_sched::governor::Standing;
use hawser_types::{ByteCount, Instant, LinkIndex};

use super::pauses::Pauses;
use crate::channel::LinksTraffic;
use crate::channels::Channels;
use crate::snapshot::LinkSnapshot;

/// The accounts of links, those without channels among them.
#[derive(Debug, Default)]
pub(crate) struct LinkAccounts {
    by_link: BTreeMap<LinkIndex, LinkAccount>,
}

/// Counts of one link since the session began; they never fall.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkAccount {
    /// Bytes of records, headers and tags included.
    sent: u64,
    received: u64,
    /// Payload that the peer holds since this link brought it, or dropped since its stream had
    /// ended early.
    delivered: u64,
    /// Payload that another link brought first, although this one was given it first.
    late: u64,
    /// Time for which the peer had data that lay behind a hole of this link.
    blocked: Duration,
    /// Part of `blocked` in which, because of that, other links had nothing that they might send.
    stalled: Duration,
    /// Silences of the link.
    pauses: Pauses,
}

impl LinkAccounts {
    /// Returns the account of a link. Accounts of links without channels are kept too, as far as
    /// there is room: a peer names links as it likes.
    pub(crate) fn of(&mut self, link: LinkIndex, channels: &Channels) -> &mut LinkAccount {
        if self.by_link.len() >= MAX_ACCOUNTS && !self.by_link.contains_key(&link) {
            let is_there = |link: &LinkIndex| channels.of_link(*link).next().is_some();
            self.by_link.retain(|link, _| is_there(link));
        }
        self.by_link.entry(link).or_default()
    }

    /// Returns the account of a link that has one.
    pub(crate) fn get(&self, link: LinkIndex) -> Option<&LinkAccount> {
        self.by_link.get(&link)
    }

    /// Books the traffic of an association: `moved` since the last time, `all` since it began.
    ///
    /// The links have brought what the peer holds thanks to the association in proportion to what
    /// they sent now, or else since they began.
    pub(crate) fn book_association(
        &mut self,
        channels: &Channels,
        moved: &LinksTraffic,
        all: &LinksTraffic,
    ) {
        self.book_delivered(channels, moved, all);
        for traffic in moved {
            let account = self.of(traffic.link(), channels);
            account.sent += traffic.sent();
            account.received += traffic.received();
        }
    }

    fn book_delivered(&mut self, channels: &Channels, moved: &LinksTraffic, all: &LinksTraffic) {
        let sum = |list: &LinksTraffic| list.iter().map(|traffic| traffic.sent()).sum::<u64>();
        let (list, sum) = match (sum(moved), sum(all)) {
            (0, 0) => return,
            (0, sum) => (all, sum),
            (sum, _) => (moved, sum),
        };
        let whole = std::mem::take(&mut self.of(LinkIndex::ALL, channels).delivered);
        let mut left = whole;
        for traffic in list {
            let part = u128::from(whole) * u128::from(traffic.sent()) / u128::from(sum);
            let part = u64::try_from(part).unwrap_or(whole).min(left);
            left -= part;
            self.of(traffic.link(), channels).delivered += part;
        }
        self.of(LinkIndex::ALL, channels).delivered += left;
    }

    /// Returns what there is to see of every link.
    pub(crate) fn snapshots(&self, now: Instant, channels: &Channels) -> Vec<LinkSnapshot> {
        let snapshot = |(link, account): (&LinkIndex, &LinkAccount)| {
            let channel = channels.of_link(*link).next();
            let standing = channel.map(|channel| channel.standing());
            LinkSnapshot {
                link: *link,
                standing: standing.map_or(Standing::Full, |it| it.standing()),
                preferred: standing.is_some_and(|it| it.rules().is_preferred()),
                bottleneck: standing.and_then(|it| it.bottleneck()),
                sent: ByteCount::new(account.sent),
                received: ByteCount::new(account.received),
                delivered: ByteCount::new(account.delivered),
                late: ByteCount::new(account.late),
                blocked: account.blocked,
                silent_for: account
                    .pauses
                    .since()
                    .filter(|_| channel.is_none())
                    .map(|at| now.since(at)),
            }
        };
        let links = self.by_link.iter();
        let links = links.filter(|(link, _)| **link != LinkIndex::ALL);
        links.map(snapshot).collect()
    }
}

impl LinkAccount {
    /// Books a record that is sent over TCP.
    pub(crate) fn on_sent(&mut self, wire: u64) {
        self.sent += wire;
    }

    /// Books a record that came over TCP.
    pub(crate) fn on_received(&mut self, wire: u64) {
        self.received += wire;
    }

    /// Books payload that the peer holds since this link brought it.
    pub(crate) fn on_delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// Books payload that another link brought first.
    pub(crate) fn on_late(&mut self, bytes: u64) {
        self.late += bytes;
    }

    /// Books time in which readers waited for this link; `stalls`: other links had nothing that
    /// they might send.
    pub(crate) fn on_blocked(&mut self, span: Duration, stalls: bool) {
        self.blocked += span;
        if stalls {
            self.stalled += span;
        }
    }

    /// Returns the silences of the link.
    pub(crate) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Returns the silences of the link, to change them.
    pub(crate) fn pauses_mut(&mut self) -> &mut Pauses {
        &mut self.pauses
    }

    /// Returns the bytes of records, both ways.
    pub(crate) fn carried(&self) -> u64 {
        self.sent + self.received
    }

    /// Returns the payload that the peer holds since this link brought it.
    pub(crate) fn delivered(&self) -> ByteCount {
        ByteCount::new(self.delivered)
    }

    /// Returns the payload that another link brought first.
    pub(crate) fn late(&self) -> ByteCount {
        ByteCount::new(self.late)
    }

    /// Returns the time in which readers waited for this link.
    pub(crate) fn blocked(&self) -> Duration {
        self.blocked
    }

    /// Returns the time in which other links had nothing to send because of this one.
    pub(crate) fn stalled(&self) -> Duration {
        self.stalled
    }
}

/// Twice as many as channels can use at once.
const MAX_ACCOUNTS: usize = 128;
