//! Encoding of decisions and notes, each as its difference from the one before.

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkUnit, Decision, Reason};
use hawser_types::{ByteCount, ChannelId, Instant, StreamId};
use hawser_wire::ChannelRole;

use super::bytes::{Reader, put, put_change};
use super::note::{Note, Words};
use super::view::{change_view, put_view, unknown};
use crate::by_role::slot;

/// A decision or a note of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A decision.
    Decision(Recorded),
    /// An event that is no decision, and its time.
    Note(Instant, Note),
}

impl Entry {
    /// Returns its time.
    pub fn at(&self) -> Instant {
        match self {
            Self::Decision(recorded) => recorded.now,
            Self::Note(at, _) => *at,
        }
    }
}

/// A decision with the facts that the policy had.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Time of the decision.
    pub now: Instant,
    /// The kind of chunk, which determines the policy.
    pub role: ChannelRole,
    /// Stream of the chunk.
    pub stream: StreamId,
    /// The unit that the policy placed.
    pub unit: ChunkUnit,
    /// Channels that the policy chose from.
    pub views: Vec<PathView>,
    /// The policy's decision.
    pub decision: Decision,
}

/// State of a block that its writer and its reader share: the values from which the next entry
/// differs.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    now: Instant,
    roles: [Latest; 2],
}

/// The latest decision of one kind.
#[derive(Clone, Debug, Default)]
struct Latest {
    stream: StreamId,
    size: u64,
    room: u64,
    views: Vec<PathView>,
}

/// A decision to be written, which borrows the views.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'a> {
    pub(super) now: Instant,
    pub(super) role: ChannelRole,
    pub(super) stream: StreamId,
    pub(super) unit: ChunkUnit,
    pub(super) views: &'a [PathView],
    pub(super) decision: Decision,
}

impl Context {
    /// Resets the state to that at the beginning of a block, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.now = Instant::ZERO;
        for latest in &mut self.roles {
            (latest.stream, latest.size, latest.room) = Default::default();
            latest.views.clear();
        }
    }

    /// Appends a decision. Returns `false`, and appends nothing, if it names a channel that is not
    /// among the views.
    pub(super) fn put_decision(&mut self, out: &mut Vec<u8>, taken: Taken<'_>) -> bool {
        let Some(outcome) = Outcome::of(&taken) else {
            return false;
        };
        let latest = &mut self.roles[slot(taken.role)];
        let same = latest.views.len() == taken.views.len();
        let mut pairs = latest.views.iter().zip(taken.views);
        let same_channels = same && pairs.all(|(old, new)| old.channel == new.channel);
        let ChunkUnit {
            size,
            more,
            room,
            again,
        } = taken.unit;
        let bit = |bit: u64, set: bool| if set { bit } else { 0 };
        let flags = bit(EXPRESS, taken.role == ChannelRole::Express)
            | bit(MORE, more)
            | bit(AGAIN, again)
            | bit(ROOM, room.is_some())
            | bit(STREAM, taken.stream != latest.stream)
            | bit(SIZE, size.as_u64() != latest.size)
            | bit(CHANNELS, !same_channels);
        put(out, (flags << 1) | DECISION);
        put_change(out, taken.now.as_nanos(), self.now.as_nanos());
        self.now = taken.now;
        if flags & STREAM != 0 {
            latest.stream = taken.stream;
            put(out, taken.stream.value());
        }
        if flags & SIZE != 0 {
            put_change(out, size.as_u64(), latest.size);
            latest.size = size.as_u64();
        }
        if let Some(room) = room {
            put_change(out, room.as_u64(), latest.room);
            latest.room = room.as_u64();
        }
        if !same_channels {
            latest.relist(taken.views.iter().map(|view| view.channel));
            put(out, latest.views.len() as u64);
            for view in taken.views {
                put(out, view.channel.value().into());
            }
        }
        outcome.put(out, taken.now);
        latest.put_views(out, taken.views);
        true
    }

    /// Appends a note; always returns `true`.
    pub(super) fn put_note(&mut self, out: &mut Vec<u8>, now: Instant, note: Note) -> bool {
        let (kind, words) = note.to_words();
        put(out, (kind << 1) | NOTE);
        put_change(out, now.as_nanos(), self.now.as_nanos());
        self.now = now;
        put(out, words.len() as u64);
        words.iter().for_each(|word| put(out, *word));
        true
    }

    /// Reads the next entry; `Some(None)` for an unknown kind of note, `None` if the bytes are
    /// invalid.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>) -> Option<Option<Entry>> {
        let tag = reader.number()?;
        self.now = Instant::from_nanos(reader.change(self.now.as_nanos())?);
        if tag & 1 == NOTE {
            let count = reader.bounded(MAX_WORDS)?;
            let words: Option<Words> = (0..count).map(|_| reader.number()).collect();
            let note = Note::from_words(tag >> 1, &words?);
            return Some(note.map(|note| Entry::Note(self.now, note)));
        }
        let recorded = self.read_decision(reader, tag >> 1)?;
        Some(Some(Entry::Decision(recorded)))
    }

    fn read_decision(&mut self, reader: &mut Reader<'_>, flags: u64) -> Option<Recorded> {
        if flags >= UNKNOWN {
            return None;
        }
        let role = match flags & EXPRESS {
            0 => ChannelRole::Bulk,
            _ => ChannelRole::Express,
        };
        let latest = &mut self.roles[slot(role)];
        if flags & STREAM != 0 {
            latest.stream = StreamId::new(reader.number()?);
        }
        if flags & SIZE != 0 {
            latest.size = reader.change(latest.size)?;
        }
        if flags & ROOM != 0 {
            latest.room = reader.change(latest.room)?;
        }
        if flags & CHANNELS != 0 {
            let count = reader.bounded(MAX_CHANNELS)?;
            let mut channels = Vec::with_capacity(count);
            for _ in 0..count {
                channels.push(ChannelId::new(u32::try_from(reader.number()?).ok()?));
            }
            latest.relist(channels.into_iter());
        }
        let outcome = Outcome::read(reader, self.now)?;
        latest.change_views(reader)?;
        Some(Recorded {
            now: self.now,
            role,
            stream: latest.stream,
            unit: ChunkUnit {
                size: ByteCount::new(latest.size),
                more: flags & MORE != 0,
                room: (flags & ROOM != 0).then_some(ByteCount::new(latest.room)),
                again: flags & AGAIN != 0,
            },
            decision: outcome.decision(&latest.views)?,
            views: latest.views.clone(),
        })
    }
}

impl Latest {
    /// Sets the list of channels. Views of channels that were listed before are kept.
    fn relist(&mut self, channels: impl Iterator<Item = ChannelId>) {
        let known = self.views.len();
        for channel in channels {
            let old = self.views[..known].iter().find(|v| v.channel == channel);
            let view = old.cloned().unwrap_or_else(|| unknown(channel));
            self.views.push(view);
        }
        self.views.drain(..known);
    }

    /// Appends the differences of all views that have changed.
    fn put_views(&mut self, out: &mut Vec<u8>, views: &[PathView]) {
        let mut place = 0;
        for (n, (old, new)) in self.views.iter_mut().zip(views).enumerate() {
            if old != new {
                put(out, (n + 1 - place) as u64);
                put_view(out, new, old);
                old.clone_from(new);
                place = n + 1;
            }
        }
        put(out, 0);
    }

    fn change_views(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let mut place = 0_usize;
        loop {
            match reader.bounded(MAX_CHANNELS)? {
                0 => return Some(()),
                skip => place += skip,
            }
            change_view(reader, self.views.get_mut(place - 1)?)?;
        }
    }
}

/// A decision with indices of views instead of channels.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    reason: Reason,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Channel(usize),
    Wait(Option<Instant>),
    Duplicate([usize; 2]),
}

impl Outcome {
    fn of(taken: &Taken<'_>) -> Option<Self> {
        let place = |id: ChannelId| taken.views.iter().position(|view| view.channel == id);
        let (kind, reason) = match taken.decision {
            Decision::Channel(id, reason) => (Kind::Channel(place(id)?), reason),
            Decision::Wait(until, reason) => (Kind::Wait(until), reason),
            Decision::Duplicate([one, two], reason) => {
                (Kind::Duplicate([place(one)?, place(two)?]), reason)
            }
        };
        Some(Self { reason, kind })
    }

    fn put(self, out: &mut Vec<u8>, now: Instant) {
        let reason = (self.reason as u64) << 2;
        match self.kind {
            Kind::Channel(place) => {
                put(out, reason);
                put(out, place as u64);
            }
            Kind::Wait(None) => put(out, reason | 1),
            Kind::Wait(Some(until)) => {
                put(out, reason | 2);
                put_change(out, until.as_nanos(), now.as_nanos());
            }
            Kind::Duplicate([one, two]) => {
                put(out, reason | 3);
                put(out, one as u64);
                put(out, two as u64);
            }
        }
    }

    fn read(reader: &mut Reader<'_>, now: Instant) -> Option<Self> {
        let code = reader.number()?;
        let reason = *Reason::ALL.get(usize::try_from(code >> 2).ok()?)?;
        let kind = match code & 3 {
            0 => Kind::Channel(reader.bounded(MAX_CHANNELS)?),
            1 => Kind::Wait(None),
            2 => Kind::Wait(Some(Instant::from_nanos(reader.change(now.as_nanos())?))),
            _ => Kind::Duplicate([reader.bounded(MAX_CHANNELS)?, reader.bounded(MAX_CHANNELS)?]),
        };
        Some(Self { reason, kind })
    }

    fn decision(self, views: &[PathView]) -> Option<Decision> {
        let channel = |place: usize| views.get(place).map(|view| view.channel);
        Some(match self.kind {
            Kind::Channel(place) => Decision::Channel(channel(place)?, self.reason),
            Kind::Wait(until) => Decision::Wait(until, self.reason),
            Kind::Duplicate([one, two]) => {
                Decision::Duplicate([channel(one)?, channel(two)?], self.reason)
            }
        })
    }
}

/// Values of the lowest bit of an entry's first number.
const DECISION: u64 = 0;
const NOTE: u64 = 1;

// Other bits of that number, in a decision.
const EXPRESS: u64 = 1;
const MORE: u64 = 1 << 1;
const AGAIN: u64 = 1 << 2;
const ROOM: u64 = 1 << 3;
const STREAM: u64 = 1 << 4;
const SIZE: u64 = 1 << 5;
const CHANNELS: u64 = 1 << 6;
const UNKNOWN: u64 = 1 << 7;

/// Maximum number of channels, more than a session ever has.
const MAX_CHANNELS: usize = 128;
/// Maximum number of values in a note.
const MAX_WORDS: usize = 64;
