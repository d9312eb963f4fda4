//! What holds up the head of a line is sent again while its link still lives.

use std::time::Duration;

use hawser_types::{ByteCount, Instant};
use hawser_wire::ChannelRole;

use super::tail::{MIN_GAIN, NEEDED_AFTER, expected_arrival, is_needed};
use super::{Session, slot};
use crate::channel::{Channel, Sent};
use crate::ledger::ChunkKey;

impl Session {
    /// Sends again what holds up the head of a line: the first chunks on a channel that has stalled,
    /// if their stream waits for them more than for any other's.
    ///
    /// The link may well live, so that the channel is not suspect: its TCP waits for a retransmission
    /// to time out, or the peer never took the channel up. What an express channel holds up goes over a
    /// bulk one: on a link with a short queue bulk crowds out the express channel's few segments, and
    /// its time-outs grow to seconds.
    pub(super) fn rescue_heads(&mut self, now: Instant) {
        let stalled = |channel: &&Channel| channel.has_stalled(now);
        let most = self.carried_in(RESCUE_SPAN).min(MAX_RESCUE);
        let mut keys = Keys::new();
        let mut rescued = smallvec::SmallVec::<[_; 4]>::new();
        for channel in self.channels.values().filter(stalled) {
            let Some(front) = self.front(channel).filter(|front| self.is_head(front)) else {
                continue;
            };
            if !self.goes_sooner(now, channel, front) {
                continue;
            }
            let (before, mut left) = (keys.len(), most);
            for sent in channel.sent.iter().filter(|sent| sent.end >= front.end) {
                let alone = self
                    .ledger
                    .get(sent.chunk)
                    .filter(|chunk| chunk.copies == 1);
                keys.extend(alone.map(|_| sent.chunk));
                left = left.saturating_sub(u64::from(sent.length));
                if left == 0 {
                    break;
                }
            }
            if keys.len() > before {
                rescued.push((channel.spec.id, (keys.len() - before) as u64));
            }
        }
        for (id, chunks) in rescued {
            if let Some(channel) = self.channels.get(&id) {
                self.recorder.on_stalled(now, channel, chunks);
            }
        }
        for key in keys {
            self.again[slot(ChannelRole::Bulk)].insert(key.segment, key);
        }
    }

    fn bulk_channels(&self) -> impl Iterator<Item = &Channel> {
        let bulk = |channel: &&Channel| channel.spec.role == ChannelRole::Bulk;
        self.channels.values().filter(bulk)
    }

    /// The first chunk on a channel that the peer's kernel does not have.
    fn front<'a>(&self, channel: &'a Channel) -> Option<&'a Sent> {
        let arrived = channel.kernel_acknowledged();
        let missing = |sent: &&Sent| sent.end > arrived && self.ledger.get(sent.chunk).is_some();
        channel.sent.iter().find(missing)
    }

    /// Whether a chunk in front on its channel is the one that its stream waits for.
    fn is_head(&self, front: &Sent) -> bool {
        let stream = |sent: &Sent| self.ledger.get(sent.chunk).map(|chunk| chunk.header.stream);
        let own = stream(front);
        let mut fronts = self
            .channels
            .values()
            .filter_map(|channel| self.front(channel));
        fronts.all(|other| other.chunk.segment >= front.chunk.segment || stream(other) != own)
    }

    /// Whether a chunk that is due would be there sooner over a channel that moves.
    fn goes_sooner(&self, now: Instant, channel: &Channel, sent: &Sent) -> bool {
        let there = expected_arrival(now, channel, sent);
        let length = ByteCount::new(u64::from(sent.length));
        is_needed(now, channel, sent)
            && self.bulk_channels().any(|other| {
                let arrival = || other.view(now, self.config.chunk_size).arrival(length);
                other.spec.link != channel.spec.link
                    && other.suspect_since.is_none()
                    && !other.has_stalled(now)
                    && arrival() + MIN_GAIN < there
            })
    }
}

impl Channel {
    /// Something is under way, and nothing has come of it for longer than TCP takes to mend a loss:
    /// three segments and a quarter of a round trip to find it (RFC 8985, 6.2), a round trip to
    /// hear that it is mended.
    fn has_stalled(&self, now: Instant) -> bool {
        let patience =
            NEEDED_AFTER.max(self.path.rtt() * 5 / 4) + self.time_for(u64::from(FULL_SEGMENT) * 4);
        !self.sent.is_empty() && now.since(self.last_progress()) > patience
    }

    /// For how long something should have come of what is under way.
    pub(crate) fn stalled(&self, now: Instant) -> Duration {
        let usual = self.path.rtt() * 2 + self.time_for(u64::from(FULL_SEGMENT) * 2);
        self.overdue(now).saturating_sub(usual)
    }

    /// How long the channel takes for so many bytes, within reason: its rate sinks while it stands
    /// still, and would excuse that for ever longer.
    pub(super) fn time_for(&self, bytes: u64) -> Duration {
        let rate = self.rate_or_guess();
        let time = rate.time_for(ByteCount::new(bytes)).unwrap_or_default();
        time.min(MAX_EXCUSE)
    }
}

const FULL_SEGMENT: u32 = 1448;
/// What two chunks take on the slowest links.
const MAX_EXCUSE: Duration = Duration::from_millis(800);
type Keys = smallvec::SmallVec<[ChunkKey; 8]>;
/// How much of what a stalled channel carries is sent again at a time: no more than this …
const MAX_RESCUE: u64 = 64 * 1024;
/// … nor than the links carry meanwhile. TCP may mend the channel's loss at any moment, and then all
/// of it was in vain.
const RESCUE_SPAN: Duration = Duration::from_millis(100);
