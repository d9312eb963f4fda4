//! The two tasks of a channel that is an association: messages in, messages out.
//!
//! The lock of the session and that of the association are never held together.

mod ways;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sctp::{
    Backlog, Behind, End, LinkWord, Message, PathSnapshot, Received, Reliability, Traffic,
};
use hawser_session::seal::datagram::OVERHEAD;
use hawser_session::{AssociationSample, ChannelSpec, Outgoing, PathSample, Side};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::sctp::StreamNumber;
use tokio::sync::Notify;

use super::inner::{Inner, Meter};
use super::{Handle, Shared};
use crate::association::AssociationHandle;
use crate::clock;
pub(super) use ways::Ways;

/// An association that carries a channel.
pub(super) struct Ride {
    association: AssociationHandle,
    began: Instant,
    /// Bytes of messages that the association has not taken yet.
    waiting: AtomicU64,
}

/// What an association says of itself.
pub(super) struct Look {
    paths: Vec<PathSnapshot>,
    backlog: Backlog,
    waiting: ByteCount,
    since_ack: Duration,
}

/// Adds the channel to the session and starts its tasks.
pub(super) fn start(shared: &Arc<Shared>, id: ChannelId, association: AssociationHandle) {
    let ride = Arc::new(Ride {
        association,
        began: clock::now(),
        waiting: AtomicU64::new(0),
    });
    let write = Arc::new(Notify::new());
    shared.with(|inner, now| {
        if inner.closed.is_some() {
            return;
        }
        let writer = Writer {
            shared: Arc::downgrade(shared),
            id,
            streams: ride.association.streams(),
            ride: Arc::clone(&ride),
            waiting: VecDeque::new(),
            policy: None,
            next_sample: now,
            low_water: ByteCount::ZERO,
        };
        let reading = tokio::spawn(read(Arc::downgrade(shared), id, Arc::clone(&ride)));
        let writing = tokio::spawn(writer.run(Arc::clone(&write)));
        let handle = Handle {
            meter: Meter::Association(ride),
            write: Arc::clone(&write),
            tasks: [reading.abort_handle(), writing.abort_handle()],
        };
        inner.channels.insert(id, handle);
        inner.learn_ways(shared.side);
        inner.ways.stale = true;
        inner.session.add_channel(now, ChannelSpec::association(id));
        inner.session.handle_writable(now, id);
    });
    write.notify_one();
    shared.changed.send_modify(|count| *count += 1);
}

/// Takes messages until the association is over.
async fn read(shared: Weak<Shared>, id: ChannelId, ride: Arc<Ride>) {
    let mut messages = Vec::new();
    while ride.association.receive_some(&mut messages).await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        // A record is far smaller than what waits for the end of a message at most.
        if messages.iter().any(|message| message.end != End::Whole) {
            break;
        }
        let result = shared.with(|inner, now| {
            let mut records = messages.drain(..).map(|it: Received| it.payload());
            records.try_for_each(|record| inner.session.handle_record(now, id, record))
        });
        if let Err(fault) = result {
            return shared.fail(&fault);
        }
    }
    if let Some(shared) = shared.upgrade() {
        tracing::info!(%id, "the association is over");
        shared.lose_channel(id);
    }
}

/// Sends records as the session gives them out.
struct Writer {
    shared: Weak<Shared>,
    id: ChannelId,
    ride: Arc<Ride>,
    /// Streams to send on.
    streams: u16,
    /// What the association has no room for yet.
    waiting: VecDeque<(StreamNumber, Message)>,
    /// What the association was told last to place packets by.
    policy: Option<ChunkPolicy>,
    next_sample: Instant,
    low_water: ByteCount,
}

/// What the session said.
struct Step {
    records: Vec<Outgoing>,
    /// The association would take more at once.
    has_room: bool,
    /// What follows them.
    behind: Behind,
    /// What holds for links, where that has changed.
    words: Option<Vec<LinkWord>>,
    /// What places chunks.
    policy: ChunkPolicy,
    over: bool,
}

impl Writer {
    async fn run(mut self, work: Arc<Notify>) {
        loop {
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            let step = self.step(&shared);
            drop(shared);
            if let Some(words) = step.words {
                self.ride.association.set_links(words);
            }
            if self.policy.replace(step.policy) != Some(step.policy) {
                self.ride.association.set_policy(step.policy);
            }
            let is_idle = step.records.is_empty();
            for record in step.records {
                self.waiting.push_back(message(record, self.streams));
            }
            if !self.send(step.behind) {
                // The reading task sees that it is over, and may have more to read before.
                return;
            }
            let below = self.low_water;
            match (is_idle && self.waiting.is_empty(), step.has_room) {
                (false, _) if self.waiting.is_empty() => {}
                (true, _) if step.over => {
                    let ending = self.ride.association.shutdown();
                    let _ = tokio::time::timeout(LAST_WORDS, ending).await;
                    return;
                }
                (true, true) => work.notified().await,
                _ => {
                    tokio::select! {
                        () = work.notified() => {}
                        () = self.ride.association.room(below) => {}
                    }
                }
            }
        }
    }

    /// Gives the association what it has room for. `false`: it takes nothing more.
    fn send(&mut self, behind: Behind) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let sent = self.ride.association.send_some(&mut self.waiting, behind);
        let waits = self.waiting.iter().map(|(_, it)| it.payload.len() as u64);
        self.ride.waiting.store(waits.sum(), Ordering::Relaxed);
        sent.inspect_err(|error| tracing::debug!(id = %self.id, %error, "a record is not sent"))
            .is_ok()
    }

    /// Tells the session how the association stands, and takes records from it while there is room.
    fn step(&mut self, shared: &Shared) -> Step {
        let now = clock::now();
        let look = (now >= self.next_sample).then(|| self.ride.look(now));
        if look.is_some() {
            self.next_sample = now + SAMPLE_EVERY;
        }
        let queued = self.ride.association.queued() + self.ride.waiting();
        let is_full = !self.waiting.is_empty();
        shared.with(|inner, now| {
            let id = self.id;
            if let Some(look) = &look {
                look.tell(inner, shared.side, now, id);
                let low_water = inner.session.low_water(id).unwrap_or_default();
                self.low_water = ByteCount::new(u64::from(low_water).max(MIN_LOW_WATER));
            }
            let words = inner
                .ways
                .take_stale()
                .then(|| inner.ways.words(&inner.session, shared.side));
            let mut records = Vec::new();
            let mut room = match is_full {
                true => 0,
                false => self.low_water.as_u64().saturating_sub(queued.as_u64()),
            };
            // What it has to say beside chunks leaves in any case.
            while records.len() + self.waiting.len() < MAX_RECORDS {
                match room {
                    0 => inner.session.handle_full(id),
                    _ => inner.session.handle_writable(now, id),
                }
                let mut out = Outgoing::default();
                if !inner.session.poll_transmit(now, id, &mut out) {
                    break;
                }
                room = room.saturating_sub(length(&out) as u64);
                records.push(out);
            }
            let hawser_session::Behind { bytes, more } = inner.session.behind();
            Step {
                records,
                has_room: room > 0,
                behind: Behind { bytes, more },
                words,
                policy: inner.session.scheduler(),
                over: inner.closed.is_some(),
            }
        })
    }
}

impl Ride {
    fn waiting(&self) -> ByteCount {
        ByteCount::new(self.waiting.load(Ordering::Relaxed))
    }

    /// Without the session's lock.
    pub(super) fn look(&self, now: Instant) -> Look {
        let backlog = self.association.backlog();
        Look {
            paths: self.association.paths(),
            waiting: self.waiting(),
            since_ack: now.since(backlog.acknowledged_at.max(self.began)),
            backlog,
        }
    }
}

impl Look {
    /// Under the session's lock.
    pub(super) fn tell(&self, inner: &mut Inner, side: Side, now: Instant, id: ChannelId) {
        // One that has never answered is nobody's.
        let known = |path: &&PathSnapshot| path.is_active || path.rtt.is_some();
        let known: Vec<&PathSnapshot> = self.paths.iter().filter(known).collect();
        let is_strange = |path: &&PathSnapshot| inner.ways.is_strange(side, path);
        if known.iter().any(is_strange) && inner.learn_ways(side) {
            inner.ways.stale = true;
        }
        let at = |path: &&PathSnapshot| {
            let link = inner.ways.link(side, path)?;
            Some((link, path.route.local.address))
        };
        let homes = known.iter().filter_map(at).collect();
        inner.ways.homes = homes;
        // Those of one link are one to the session, as its channels are.
        let mut paths: BTreeMap<LinkIndex, PathSample> = BTreeMap::new();
        for path in known {
            let link = inner.ways.link(side, path);
            let link = link.unwrap_or(LinkIndex::ALL);
            let sample = sample(link, path);
            let merged = paths.get(&link).map(|known| together(*known, sample));
            paths.insert(link, merged.unwrap_or(sample));
        }
        let paths: Vec<PathSample> = paths.into_values().collect();
        let queued = self.backlog.queued + self.waiting;
        let sample = AssociationSample {
            paths: &paths,
            unacknowledged: self.backlog.under_way + queued,
            queued,
            since_ack: self.since_ack,
            duplicated: self.backlog.sent_twice,
        };
        inner.session.handle_association_sample(now, id, &sample);
    }
}

fn sample(link: LinkIndex, path: &PathSnapshot) -> PathSample {
    PathSample {
        link,
        is_active: path.is_active,
        is_suspect: path.is_suspect,
        rtt: path.rtt,
        rate: path.rate,
        window: path.window,
        in_flight: path.in_flight,
        sent: on_the_wire(path.sent),
        received: on_the_wire(path.received),
    }
}

/// Two paths of one link. What does not answer counts only in what it has carried.
fn together(one: PathSample, other: PathSample) -> PathSample {
    let (best, rest) = match other.is_active && !one.is_active {
        true => (other, one),
        false => (one, other),
    };
    let counts = rest.is_active == best.is_active;
    let both = |value: fn(&PathSample) -> ByteCount| {
        let more = if counts {
            value(&rest)
        } else {
            ByteCount::ZERO
        };
        value(&best) + more
    };
    let rate = if counts { rest.rate } else { Rate::ZERO };
    PathSample {
        is_suspect: best.is_suspect && (rest.is_suspect || !counts),
        rtt: best
            .rtt
            .into_iter()
            .chain(rest.rtt.filter(|_| counts))
            .min(),
        rate: best.rate + rate,
        window: both(|path| path.window),
        in_flight: both(|path| path.in_flight),
        sent: one.sent + other.sent,
        received: one.received + other.received,
        ..best
    }
}

/// The message that a record is.
fn message(record: Outgoing, streams: u16) -> (StreamNumber, Message) {
    let stream = StreamNumber::new(record.sctp_stream(streams));
    let reliability = record.lifetime.map(Reliability::Lifetime);
    let payload = match record.payload.is_empty() {
        true => record.head.freeze(),
        false => {
            let mut whole = BytesMut::with_capacity(length(&record));
            whole.extend_from_slice(&record.head);
            let pieces = record.payload.iter();
            pieces.for_each(|piece| whole.extend_from_slice(piece));
            whole.freeze()
        }
    };
    let message = Message {
        unordered: true,
        reliability: reliability.unwrap_or_default(),
        twice: record.duplicate,
        ..Message::new(payload)
    };
    (stream, message)
}

fn length(record: &Outgoing) -> usize {
    record.head.len() + record.payload.iter().map(Bytes::len).sum::<usize>()
}

/// With the seals.
fn on_the_wire(traffic: Traffic) -> ByteCount {
    traffic.bytes + ByteCount::new(traffic.packets * OVERHEAD as u64)
}

const SAMPLE_EVERY: Duration = Duration::from_millis(10);
/// What waits in the association while nothing is known of its rate.
const MIN_LOW_WATER: u64 = 64 * 1024;
/// Records that are taken from the session under one lock.
const MAX_RECORDS: usize = 64;
/// How long what was said last may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_link_are_one_and_what_does_not_answer_counts_only_in_what_it_has_carried() {
        let bytes = ByteCount::new;
        let path = |is_active, rtt, window| PathSample {
            link: LinkIndex::new(2),
            is_active,
            is_suspect: !is_active,
            rtt: Some(Duration::from_millis(rtt)),
            rate: Rate::from_bits_per_second(1000),
            window: bytes(window),
            in_flight: bytes(10),
            sent: bytes(100),
            received: bytes(7),
        };
        let (quick, slow) = (path(true, 20, 1000), path(true, 50, 300));
        let both = together(slow, quick);
        assert_eq!(both, together(quick, slow));
        assert_eq!(both.rtt, quick.rtt);
        assert_eq!((both.window, both.in_flight), (bytes(1300), bytes(20)));
        assert_eq!(both.rate, Rate::from_bits_per_second(2000));
        let dead = path(false, 5, 9000);
        let carried = PathSample {
            sent: bytes(200),
            received: bytes(14),
            ..slow
        };
        assert_eq!(together(dead, slow), carried);
        assert_eq!(together(slow, dead), carried);
    }
}
