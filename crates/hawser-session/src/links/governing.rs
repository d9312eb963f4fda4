//! The governor's view of links: what each delivers, and what others wait for because of it.

use std::time::Duration;

use hawser_sched::governor::{Governor, LinkReport};
use hawser_types::{Instant, LinkIndex, Rate, StreamId};
use hawser_wire::ChannelRole;
use smallvec::SmallVec;

use super::accounts::LinkAccounts;
use crate::channels::Channels;
use crate::streams::Streams;
use crate::unacknowledged::Unacknowledged;

/// The governor, and when it was last asked.
#[derive(Debug, Default)]
pub(super) struct Governing {
    governor: Governor,
    asked_at: Option<Instant>,
}

/// The first chunk of a stream that the peer does not have, and the link that has it.
struct Hole {
    stream: StreamId,
    offset: u64,
    copy: bool,
    link: LinkIndex,
}

impl Governing {
    /// Returns the time since the last call, if the session was busy all the while.
    pub(super) fn busy_span(&mut self, now: Instant) -> Option<Duration> {
        let since = self.asked_at.replace(now);
        let span = since.map_or(Duration::ZERO, |since| now.since(since));
        (span <= LONGEST_LOOK).then_some(span)
    }

    /// Reports every link to the governor, and follows it. `demand`: there is more to send than
    /// links take.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        channels: &mut Channels,
        accounts: &LinkAccounts,
        demand: bool,
    ) {
        let mut reports = SmallVec::<[LinkReport; 8]>::new();
        for channel in channels.iter() {
            let link = channel.link();
            let is_link = !channel.is_association() && !channel.is_excluded();
            if is_link && reports.iter().all(|report| report.link != link) {
                reports.push(report(link, channels, accounts, demand));
            }
        }
        self.governor.on_reports(now, &reports);
        for channel in channels.iter_mut() {
            let verdict = self.governor.standing(channel.link());
            channel.standing_mut().set_harm(verdict);
        }
    }
}

/// Charges the links that readers wait for, as far as acknowledgements show it: the peer holds
/// something of a stream that lies behind the first chunk which it does not hold. `used_up`:
/// nothing new may be sent.
pub(super) fn book_waits(
    span: Duration,
    accounts: &mut LinkAccounts,
    channels: &Channels,
    streams: &Streams,
    unacknowledged: &Unacknowledged,
    used_up: bool,
) {
    let mut charged = SmallVec::<[LinkIndex; 4]>::new();
    for hole in holes(channels, unacknowledged) {
        let stream = streams.get(hole.stream);
        let is_waiting = stream.is_some_and(|stream| stream.is_held_behind(hole.offset));
        if !is_waiting || charged.contains(&hole.link) {
            continue;
        }
        charged.push(hole.link);
        let mut others = channels.iter().filter(|other| other.link() != hole.link);
        let idle = others.any(|other| {
            let outbound = other.outbound();
            let takes = outbound.is_ready() && outbound.is_free();
            takes && other.role() == ChannelRole::Bulk && !other.is_excluded()
        });
        let account = accounts.of(hole.link, channels);
        account.on_blocked(span, used_up && idle);
    }
}

/// Returns the first chunk that is missing of each stream, among those that channels have longest.
fn holes(channels: &Channels, unacknowledged: &Unacknowledged) -> SmallVec<[Hole; 8]> {
    let mut holes = SmallVec::<[Hole; 8]>::new();
    for channel in channels.iter() {
        let oldest = channel.outbound().sent().take(MAX_LOOK);
        let mut missing = oldest.filter_map(|sent| {
            let chunk = unacknowledged.get(sent.chunk())?;
            Some(Hole {
                stream: chunk.stream(),
                offset: chunk.header().offset.value(),
                copy: sent.is_copy(),
                link: channel.link(),
            })
        });
        let Some(hole) = missing.next() else { continue };
        match holes.iter_mut().find(|other| other.stream == hole.stream) {
            Some(other) if (hole.offset, hole.copy) < (other.offset, other.copy) => *other = hole,
            Some(_) => {}
            None => holes.push(hole),
        }
    }
    holes
}

fn report(
    link: LinkIndex,
    channels: &Channels,
    accounts: &LinkAccounts,
    demand: bool,
) -> LinkReport {
    let account = accounts.get(link).copied().unwrap_or_default();
    let bulk = || {
        let channels = channels.of_link(link);
        channels.filter(|channel| channel.role() == ChannelRole::Bulk)
    };
    let rtt = bulk().map(|channel| channel.path().rtt()).max();
    let loss = bulk().map(|channel| channel.path().loss().rate());
    LinkReport {
        link,
        delivered: account.delivered(),
        sent_again: account.late(),
        blocked: account.blocked(),
        stalled: account.stalled(),
        rate: bulk().map(|channel| channel.path().rate()).sum::<Rate>(),
        rtt: rtt.unwrap_or_default(),
        loss: loss.fold(0.0, f64::max),
        demand,
        bottleneck: bulk().find_map(|channel| channel.standing().bottleneck()),
    }
}

/// A longer pause is one in which nothing was in flight.
const LONGEST_LOOK: Duration = Duration::from_millis(250);
/// Chunks of a channel that are looked through for one that is still missing.
const MAX_LOOK: usize = 8;
