use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;
use hawser_wire::sctp::StreamNumber;

use super::{End, Received, charge};
use crate::error::Misbehaviour;

/// Parts of messages that wait for the others.
///
/// Adjacent parts of one message form a run; the parts at both ends of a run know each other, so that
/// a new part joins its neighbours without a walk.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    kept: BTreeMap<Place, Kept>,
    /// Where messages go on whose beginning has been delivered already.
    begun: BTreeMap<Place, Head>,
}

/// Where a part belongs: parts of a message have adjacent positions in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// With I-DATA, the stream and whether the message is ordered.
    pub(super) lane: u32,
    /// With I-DATA, the number of the message and that of the part; else the TSN.
    pub(super) position: u64,
}

/// What is the same for all parts of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) stream: StreamNumber,
    pub(super) unordered: bool,
    /// Its number in the stream; of an unordered one without interleaving, the TSN of the part.
    pub(super) number: u32,
    /// As the first part says it.
    pub(super) protocol: u32,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) head: Head,
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) payload: Bytes,
}

#[derive(Debug)]
struct Kept {
    part: Part,
    /// The position at the other end of its run, if it stands at an end of it.
    other_end: u64,
}

/// What was thrown away.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// What it was charged with.
    pub(super) charge: usize,
    /// Messages whose beginning had been delivered.
    pub(super) begun: Vec<Head>,
}

impl Fragments {
    /// Keeps a part; answers with the message that is whole by it. `early`: its beginning will do.
    pub(super) fn insert(
        &mut self,
        place: Place,
        part: Part,
        early: bool,
    ) -> Result<Option<Received>, Misbehaviour> {
        let (start, end) = self.neighbours(place, &part)?;
        let (mut begins, mut is_whole) = (part.first, part.last);
        let other_end = if start == place.position { end } else { start };
        self.kept.insert(place, Kept { part, other_end });
        if start != place.position
            && let Some(kept) = self.kept.get_mut(&place.at(start))
        {
            kept.other_end = end;
            begins = kept.part.first;
        }
        if end != place.position
            && let Some(kept) = self.kept.get_mut(&place.at(end))
        {
            kept.other_end = start;
            is_whole = kept.part.last;
        }
        let start = place.at(start);
        begins |= self.begun.contains_key(&start);
        Ok((begins && (is_whole || early))
            .then(|| self.take(start, end))
            .flatten())
    }

    /// How many messages go on whose beginning has been delivered.
    pub(super) fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Everything in the lane up to this position counts as arrived: drops what can't become whole any
    /// more, since a part of it is missing there.
    pub(super) fn drop_incomplete(&mut self, lane: u32, through: u64) -> Dropped {
        let mut dropped = Dropped::default();
        let from = Place { lane, position: 0 };
        let mut next = from;
        // What follows may lack its beginning.
        let last = from.at(through.saturating_add(1));
        while next <= last
            && let Some((&start, kept)) = self.kept.range(next..=last).next()
        {
            let end = kept.other_end;
            if !self.begins(start) || end < through {
                self.drop_range(start, end, &mut dropped);
            }
            next = start.at(end + 1);
        }
        self.drop_begun(from, through, &mut dropped);
        dropped
    }

    /// Drops everything between two positions of a lane, both included.
    pub(super) fn drop_all(&mut self, lane: u32, first: u64, last: u64, dropped: &mut Dropped) {
        let start = Place {
            lane,
            position: first,
        };
        self.drop_range(start, last, dropped);
        let begun: Vec<_> = self.begun.range(start..=start.at(last)).collect();
        let places: Vec<_> = begun.into_iter().map(|(place, _)| *place).collect();
        let heads = places.iter().filter_map(|place| self.begun.remove(place));
        dropped.begun.extend(heads);
    }

    /// The ends of the run that the part will be in.
    fn neighbours(&self, place: Place, part: &Part) -> Result<(u64, u64), Misbehaviour> {
        let is_begun = self.begun.contains_key(&place);
        if is_begun && part.first {
            return Err(Misbehaviour::BrokenMessage);
        }
        let (mut start, mut end) = (place.position, place.position);
        let before = place.at(place.position.saturating_sub(1));
        let after = place.at(place.position.saturating_add(1));
        for (there, kept) in self.kept.range(before..=after) {
            // Whether the message ends or begins on the border between the two, as either part says.
            let [ends, begins] = match there.cmp(&place) {
                Ordering::Less => [kept.part.last, part.first || is_begun],
                Ordering::Equal => return Err(Misbehaviour::BrokenMessage),
                Ordering::Greater => [part.last, self.begins(*there)],
            };
            let is_joined = !ends && !begins;
            let fits = !is_joined || kept.part.head.is_same_message(&part.head);
            if !fits || ends != begins {
                return Err(Misbehaviour::BrokenMessage);
            }
            match there.cmp(&place) {
                Ordering::Less if is_joined => start = kept.other_end,
                Ordering::Greater if is_joined => end = kept.other_end,
                _ => {}
            }
        }
        Ok((start, end))
    }

    /// Whether a message begins with the part there, or with what has been delivered before it.
    fn begins(&self, place: Place) -> bool {
        let first = self.kept.get(&place).is_some_and(|kept| kept.part.first);
        first || self.begun.contains_key(&place)
    }

    /// Takes a run that begins a message or goes on with one.
    fn take(&mut self, start: Place, end: u64) -> Option<Received> {
        let first = self.kept.get(&start)?;
        let head = self.begun.remove(&start).unwrap_or(first.part.head);
        let mut received = Received::of(head);
        received.reserve((end - start.position + 1) as usize);
        let mut is_whole = false;
        for position in start.position..=end {
            let part = self.kept.remove(&start.at(position))?.part;
            is_whole = part.last;
            received.push(part.payload);
        }
        if !is_whole {
            received.end = End::More;
            self.begun.insert(start.at(end.wrapping_add(1)), head);
        }
        Some(received)
    }

    fn drop_range(&mut self, start: Place, end: u64, dropped: &mut Dropped) {
        let range = self.kept.range(start..=start.at(end));
        let places: Vec<_> = range.map(|(place, _)| *place).collect();
        for place in places {
            if let Some(kept) = self.kept.remove(&place) {
                dropped.charge += charge(&kept.part.payload);
            }
        }
    }

    /// Forgets messages that should go on up to a position, but what they should go on with is missing.
    fn drop_begun(&mut self, from: Place, through: u64, dropped: &mut Dropped) {
        let range = self.begun.range(from..=from.at(through));
        let missing = range.filter(|(place, _)| !self.kept.contains_key(place));
        let places: Vec<_> = missing.map(|(place, _)| *place).collect();
        let heads = places.iter().filter_map(|place| self.begun.remove(place));
        dropped.begun.extend(heads);
    }
}

impl Place {
    fn at(self, position: u64) -> Self {
        Self { position, ..self }
    }
}

impl Head {
    fn is_same_message(&self, other: &Self) -> bool {
        let number = self.unordered || self.number == other.number;
        number && self.stream == other.stream && self.unordered == other.unordered
    }
}
