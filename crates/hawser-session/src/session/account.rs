//! What went over each link and what it did to the whole, for status, ledger and governor.

use std::time::Duration;

use hawser_sched::governor::{Governor, LinkReport, Standing};
use hawser_sched::rules::Permission;
use hawser_types::{ByteCount, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::ChannelRole;
use smallvec::SmallVec;

use super::pauses::Pauses;
use super::{Session, slot};
use crate::LinkSnapshot;
use crate::channel::{Channel, Sent};

/// What was counted of one link since the session began; never falls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkAccount {
    /// Bytes of records, headers and tags included.
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Payload that the peer holds since this link brought it …
    delivered: u64,
    /// … and that another link brought first, although this one was given it first.
    late: u64,
    /// Time for which the peer had data that lay behind a hole of this link …
    blocked: Duration,
    /// … and in which, for that, other links had nothing that they might send.
    stalled: Duration,
    /// Its silences.
    pub(super) pauses: Pauses,
}

/// The governor, and when it was last asked.
#[derive(Debug, Default)]
pub(super) struct Oversight {
    governor: Governor,
    asked_at: Option<Instant>,
}

/// The first chunk of a stream that is not there, and the link that has it.
struct Hole {
    stream: StreamId,
    offset: u64,
    copy: bool,
    link: LinkIndex,
}

impl LinkAccount {
    /// What the peer holds, to be booked elsewhere.
    pub(super) fn take_delivered(&mut self) -> u64 {
        std::mem::take(&mut self.delivered)
    }

    pub(super) fn add_delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
    }
}

impl Session {
    /// The account of a link. Those of links without channels are kept too, as far as there is
    /// room: a peer names links as it likes.
    pub(super) fn account(&mut self, link: LinkIndex) -> &mut LinkAccount {
        if self.accounts.len() >= MAX_ACCOUNTS && !self.accounts.contains_key(&link) {
            let channels = &self.channels;
            let is_there = |link: &LinkIndex| channels.values().any(|c| c.spec.link == *link);
            self.accounts.retain(|link, _| is_there(link));
        }
        self.accounts.entry(link).or_default()
    }

    /// The peer acknowledges a chunk that came by a link.
    pub(super) fn book_held(&mut self, link: LinkIndex, sent: Sent) {
        let bytes = u64::from(sent.length);
        let Some(chunk) = self.ledger.get(sent.chunk) else {
            // It was there already. A copy that comes second is no fault of its link.
            if !sent.copy {
                self.account(link).late += bytes;
            }
            return;
        };
        let (stream, end) = (chunk.header.stream, chunk.header.offset.value() + bytes);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.furthest_held = stream.furthest_held.max(end);
        }
        self.account(link).delivered += bytes;
        self.transports.on_held(link, bytes);
    }

    /// Reports every link to the governor, and follows it. Called each few milliseconds while
    /// something is under way.
    pub(super) fn consult_governor(&mut self, now: Instant) {
        let since = self.governor.asked_at.replace(now);
        let span = since.map_or(Duration::ZERO, |since| now.since(since));
        if span <= LONGEST_LOOK {
            self.book_waits(span);
        }
        self.find_bottlenecks(now);
        let demand = self.has_demand();
        let mut reports = SmallVec::<[LinkReport; 8]>::new();
        for channel in self.channels.values() {
            let link = channel.spec.link;
            let is_link = !channel.spec.is_association() && !channel.is_excluded();
            if is_link && reports.iter().all(|report| report.link != link) {
                reports.push(self.report(link, demand));
            }
        }
        let governor = &mut self.governor.governor;
        governor.on_reports(now, &reports);
        for channel in self.channels.values_mut() {
            channel.harm = match governor.standing(channel.spec.link) {
                Standing::Probing(harm) => Some(harm),
                _ => None,
            };
        }
    }

    pub(super) fn link_snapshots(&self) -> Vec<LinkSnapshot> {
        let snapshot = |(link, account): (&LinkIndex, &LinkAccount)| {
            let mut channels = self.channels.values();
            let channel = channels.find(|channel| channel.spec.link == *link);
            LinkSnapshot {
                link: *link,
                standing: channel.map_or(Standing::Full, |channel| channel.standing),
                preferred: channel.is_some_and(|c| c.terms.permission == Permission::Preferred),
                bottleneck: channel.and_then(|channel| channel.bottleneck),
                sent: ByteCount::new(account.sent),
                received: ByteCount::new(account.received),
                delivered: ByteCount::new(account.delivered),
                late: ByteCount::new(account.late),
                blocked: account.blocked,
            }
        };
        let links = self.accounts.iter();
        let links = links.filter(|(link, _)| **link != LinkIndex::ALL);
        links.map(snapshot).collect()
    }

    /// There is more to send than links take.
    pub(super) fn has_demand(&self) -> bool {
        let bulk = slot(ChannelRole::Bulk);
        !self.waiting[bulk].is_empty() || !self.again[bulk].is_empty() || self.is_window_used_up()
    }

    /// Nothing new may be sent before something is acknowledged or read.
    fn is_window_used_up(&self) -> bool {
        let mut streams = self.streams.values();
        self.ledger.bytes() >= self.config.send_memory.as_u64()
            || streams.any(|stream| stream.send.is_credit_blocked())
    }

    fn report(&self, link: LinkIndex, demand: bool) -> LinkReport {
        let account = self.accounts.get(&link).copied().unwrap_or_default();
        let bulk = |channel: &&Channel| {
            channel.spec.link == link && channel.spec.role == ChannelRole::Bulk
        };
        let bulk = || self.channels.values().filter(bulk);
        let loss = bulk().map(|channel| channel.path.loss().rate());
        LinkReport {
            link,
            delivered: ByteCount::new(account.delivered),
            sent_again: ByteCount::new(account.late),
            blocked: account.blocked,
            stalled: account.stalled,
            rate: bulk().map(|channel| channel.path.rate()).sum::<Rate>(),
            rtt: bulk()
                .map(|channel| channel.path.rtt())
                .max()
                .unwrap_or_default(),
            loss: loss.fold(0.0, f64::max),
            demand,
            bottleneck: bulk().find_map(|channel| channel.bottleneck),
        }
    }

    /// Charges the links that readers wait for, as far as acknowledgements show it: something of
    /// a stream is held that lies behind the first chunk which is not.
    fn book_waits(&mut self, span: Duration) {
        let holes = self.holes();
        let used_up = self.is_window_used_up();
        let mut charged = SmallVec::<[LinkIndex; 4]>::new();
        for hole in holes {
            let stream = self.streams.get(&hole.stream);
            let is_waiting = stream.is_some_and(|stream| stream.furthest_held > hole.offset);
            if !is_waiting || charged.contains(&hole.link) {
                continue;
            }
            charged.push(hole.link);
            let mut others = self.channels.values().filter(|c| c.spec.link != hole.link);
            let idle = others.any(|c| {
                c.ready
                    && c.outbox.is_empty()
                    && c.spec.role == ChannelRole::Bulk
                    && !c.is_excluded()
            });
            let account = self.account(hole.link);
            account.blocked += span;
            if used_up && idle {
                account.stalled += span;
            }
        }
    }

    /// The first chunk that is missing of each stream, among those that channels carry longest.
    fn holes(&self) -> SmallVec<[Hole; 8]> {
        let mut holes = SmallVec::<[Hole; 8]>::new();
        for channel in self.channels.values() {
            let mut missing = channel.sent.iter().take(MAX_LOOK).filter_map(|sent| {
                let chunk = self.ledger.get(sent.chunk)?;
                Some(Hole {
                    stream: chunk.header.stream,
                    offset: chunk.header.offset.value(),
                    copy: sent.copy,
                    link: channel.spec.link,
                })
            });
            let Some(hole) = missing.next() else { continue };
            match holes.iter_mut().find(|other| other.stream == hole.stream) {
                Some(other) if (hole.offset, hole.copy) < (other.offset, other.copy) => {
                    *other = hole;
                }
                Some(_) => {}
                None => holes.push(hole),
            }
        }
        holes
    }
}

/// Twice as many as channels can use at once.
const MAX_ACCOUNTS: usize = 128;
/// A longer pause is one in which nothing was under way.
const LONGEST_LOOK: Duration = Duration::from_millis(250);
/// How many chunks of a channel are looked through for one that is still missing.
const MAX_LOOK: usize = 8;
