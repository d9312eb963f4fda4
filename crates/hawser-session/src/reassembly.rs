use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hawser_types::{RangeSet, StreamId, StreamOffset};

use crate::error::Misbehaviour;
use crate::held::Held;
use crate::read_buffers::Pin;

/// Puts the chunks of one stream back in order, or hands them out as they come.
///
/// Holds slices of the receive buffers and copies nothing. A chunk that was sent again has the
/// same boundaries as the first time, so anything that overlaps without being equal is refused.
#[derive(Debug)]
pub(crate) struct Reassembly {
    stream: StreamId,
    order: Order,
    ready: VecDeque<Piece>,
    ready_bytes: u64,
    held_charge: u64,
    /// Cost of the chunks that are not slices of a charged buffer.
    own_charge: u64,
    end: Option<u64>,
}

/// A chunk's payload that came, with its hold on the buffer that it is a slice of. Without one its
/// memory is its own.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    bytes: Bytes,
    pin: Option<Arc<Pin>>,
}

/// Record of the chunks that came.
#[derive(Debug)]
enum Order {
    /// Ready up to `next`; what lies further on is held back.
    InOrder { next: u64, held: Held<Arrived> },
    /// Every new chunk is ready at once; only the ranges are remembered.
    AsTheyCome(RangeSet),
}

#[derive(Debug)]
struct Piece {
    offset: u64,
    payload: Arrived,
    charge: u64,
}

/// Outcome of taking a chunk in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is new.
    New,
    /// It was there already.
    Duplicate,
}

impl Reassembly {
    pub(crate) fn new(stream: StreamId) -> Self {
        let order = Order::InOrder {
            next: 0,
            held: Held::default(),
        };
        Self {
            stream,
            order,
            ready: VecDeque::new(),
            ready_bytes: 0,
            held_charge: 0,
            own_charge: 0,
            end: None,
        }
    }

    /// Takes a chunk in. With `fin` the stream ends behind it.
    pub(crate) fn insert(
        &mut self,
        offset: StreamOffset,
        payload: impl Into<Arrived>,
        fin: bool,
    ) -> Result<Inserted, Misbehaviour> {
        let payload = payload.into();
        let bytes = &payload.bytes;
        let start = offset.value();
        let end = start.saturating_add(bytes.len() as u64);
        let known_end = self.end.unwrap_or(u64::MAX);
        if end > known_end || fin && self.end.is_some_and(|known| known != end) {
            return Err(Misbehaviour::BeyondEnd(self.stream));
        }
        if fin {
            if self.highest() > end {
                return Err(Misbehaviour::BeyondEnd(self.stream));
            }
            self.end = Some(end);
        }
        if bytes.is_empty() {
            return Ok(Inserted::New);
        }
        let known = match &self.order {
            Order::InOrder { next, held } => {
                let same = held.get(start).is_some_and(|old| old.len() == bytes.len());
                let before = held.before(end);
                let touches = before.is_some_and(|(at, old)| at + old.len() as u64 > start);
                Known::of(end <= *next || same, start < *next || touches)
            }
            Order::AsTheyCome(received) => {
                let all = received.contains(start) && received.contains(end - 1);
                Known::of(all, !received.is_disjoint(&(start..end)))
            }
        };
        match known {
            Known::Whole => return Ok(Inserted::Duplicate),
            Known::InPart => return Err(Misbehaviour::Overlap(self.stream)),
            Known::No => self.insert_new(start, payload),
        }
        Ok(Inserted::New)
    }

    /// Takes in a chunk that touches nothing that is known.
    fn insert_new(&mut self, start: u64, payload: Arrived) {
        self.own_charge += payload.own_charge();
        let (ready, ready_bytes) = (&mut self.ready, &mut self.ready_bytes);
        let mut push = |offset, payload: Arrived| {
            *ready_bytes += payload.len() as u64;
            ready.push_back(Piece::new(offset, payload));
        };
        match &mut self.order {
            Order::InOrder { next, held } if start > *next => {
                self.held_charge += charge(payload.len());
                held.insert(start, payload);
            }
            Order::InOrder { next, held } => {
                *next += payload.len() as u64;
                push(start, payload);
                while let Some(payload) = held.take_first(*next) {
                    self.held_charge -= charge(payload.len());
                    let offset = *next;
                    *next += payload.len() as u64;
                    push(offset, payload);
                }
            }
            Order::AsTheyCome(received) => {
                received.insert(start..start + payload.len() as u64);
                push(start, payload);
            }
        }
    }

    /// From now on chunks are handed out as they come, each with its offset.
    pub(crate) fn set_unordered(&mut self) {
        let Order::InOrder { next, held } = &mut self.order else {
            return;
        };
        let mut received = RangeSet::default();
        received.insert(0..*next);
        self.held_charge = 0;
        for (offset, payload) in held.take_all() {
            received.insert(offset..offset + payload.len() as u64);
            self.ready_bytes += payload.len() as u64;
            self.ready.push_back(Piece::new(offset, payload));
        }
        self.order = Order::AsTheyCome(received);
    }

    /// Takes out up to `max` bytes, with their offset and the credit that is free again.
    pub(crate) fn pop(&mut self, max: usize) -> Option<(StreamOffset, Bytes, u64)> {
        let piece = self.ready.front_mut()?;
        let offset = StreamOffset::new(piece.offset);
        let (bytes, charge) = if piece.payload.len() <= max {
            let Piece {
                payload, charge, ..
            } = self.ready.pop_front()?;
            if payload.pin.is_none() {
                self.own_charge -= charge;
            }
            (payload.bytes, charge)
        } else {
            piece.offset += max as u64;
            (piece.payload.bytes.split_to(max), 0)
        };
        self.ready_bytes -= bytes.len() as u64;
        Some((offset, bytes, charge))
    }

    /// Bytes that can be read now.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Returns the ranges that came, if chunks are handed out as they come; 0 in order.
    pub(crate) fn range_count(&self) -> usize {
        match &self.order {
            Order::InOrder { .. } => 0,
            Order::AsTheyCome(received) => received.range_count(),
        }
    }

    /// Returns the credit used by the chunks that are held back behind a hole.
    pub(crate) fn held_charge(&self) -> u64 {
        self.held_charge
    }

    /// Returns what the chunks cost that are no slices of a buffer that is charged.
    pub(crate) fn own_charge(&self) -> u64 {
        self.own_charge
    }

    /// Copies the chunks that are slices of a buffer, so that none keeps one alive.
    pub(crate) fn copy_out(&mut self) {
        for piece in &mut self.ready {
            if piece.payload.copy_out() {
                self.own_charge += piece.charge;
            }
        }
        if let Order::InOrder { held, .. } = &mut self.order {
            for payload in held.iter_mut() {
                if payload.copy_out() {
                    self.own_charge += payload.own_charge();
                }
            }
        }
    }

    /// Every byte up to the end has come.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.order {
            Order::InOrder { next, .. } => self.end == Some(*next),
            Order::AsTheyCome(received) => self.end == Some(received.prefix()),
        }
    }

    /// Every byte up to the end has been taken out.
    pub(crate) fn is_read_out(&self) -> bool {
        self.ready.is_empty() && self.is_complete()
    }

    /// The end of the furthest chunk.
    fn highest(&self) -> u64 {
        match &self.order {
            Order::InOrder { next, held } => held
                .last()
                .map_or(*next, |(at, bytes)| at + bytes.len() as u64),
            Order::AsTheyCome(received) => received.end(),
        }
    }
}

/// Part of a chunk that was there before.
enum Known {
    No,
    InPart,
    Whole,
}

impl Known {
    fn of(whole: bool, any: bool) -> Self {
        match (whole, any) {
            (true, _) => Self::Whole,
            (false, true) => Self::InPart,
            (false, false) => Self::No,
        }
    }
}

impl Piece {
    fn new(offset: u64, payload: Arrived) -> Self {
        let charge = charge(payload.len());
        Self {
            offset,
            payload,
            charge,
        }
    }
}

impl Arrived {
    /// A payload that keeps a buffer alive.
    pub(crate) fn slice(bytes: Bytes, pin: Arc<Pin>) -> Self {
        Self {
            bytes,
            pin: Some(pin),
        }
    }

    /// Returns its bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns what it costs beside the buffer that it is a slice of.
    fn own_charge(&self) -> u64 {
        match self.pin {
            Some(_) => 0,
            None => charge(self.len()),
        }
    }

    /// Copies it out of its buffer. False if it is in none.
    fn copy_out(&mut self) -> bool {
        let was_slice = self.pin.take().is_some();
        if was_slice {
            self.bytes = Bytes::copy_from_slice(&self.bytes);
        }
        was_slice
    }
}

impl From<Bytes> for Arrived {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, pin: None }
    }
}

/// The credit that a chunk uses: what it costs to keep, bookkeeping included.
pub(crate) fn charge(payload: usize) -> u64 {
    if payload == 0 {
        0
    } else {
        payload.max(MIN_CHARGE) as u64
    }
}

const MIN_CHARGE: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: StreamId = StreamId::new(2);

    fn insert(
        r: &mut Reassembly,
        at: u64,
        text: &str,
        fin: bool,
    ) -> Result<Inserted, Misbehaviour> {
        r.insert(
            StreamOffset::new(at),
            Bytes::copy_from_slice(text.as_bytes()),
            fin,
        )
    }

    fn read(r: &mut Reassembly) -> String {
        let mut out = Vec::new();
        while let Some((_, bytes, _)) = r.pop(3) {
            out.extend_from_slice(&bytes);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn chunks_come_out_in_order_whatever_order_they_came_in() {
        let mut r = Reassembly::new(STREAM);
        assert_eq!(insert(&mut r, 4, "4567", true), Ok(Inserted::New));
        assert_eq!(read(&mut r), "");
        assert_eq!(insert(&mut r, 4, "4567", true), Ok(Inserted::Duplicate));
        assert_eq!(insert(&mut r, 0, "0123", false), Ok(Inserted::New));
        assert!(r.is_complete() && !r.is_read_out());
        assert_eq!(read(&mut r), "01234567");
        assert!(r.is_read_out());
        assert_eq!(insert(&mut r, 0, "0123", false), Ok(Inserted::Duplicate));
    }

    #[test]
    fn overlaps_and_data_beyond_the_end_are_refused() {
        let mut r = Reassembly::new(STREAM);
        insert(&mut r, 4, "4567", false).unwrap();
        assert_eq!(
            insert(&mut r, 2, "234", false),
            Err(Misbehaviour::Overlap(STREAM))
        );
        assert_eq!(
            insert(&mut r, 6, "67", false),
            Err(Misbehaviour::Overlap(STREAM))
        );
        assert_eq!(
            insert(&mut r, 0, "0", true),
            Err(Misbehaviour::BeyondEnd(STREAM))
        );
        insert(&mut r, 8, "", true).unwrap();
        assert_eq!(
            insert(&mut r, 8, "8", false),
            Err(Misbehaviour::BeyondEnd(STREAM))
        );
        assert_eq!(
            insert(&mut r, 9, "", true),
            Err(Misbehaviour::BeyondEnd(STREAM))
        );
    }

    #[test]
    fn unordered_reading_yields_each_byte_once_with_its_offset() {
        let mut r = Reassembly::new(STREAM);
        insert(&mut r, 6, "67", true).unwrap();
        r.set_unordered();
        insert(&mut r, 2, "2345", false).unwrap();
        assert_eq!(insert(&mut r, 6, "67", true), Ok(Inserted::Duplicate));
        let mut seen = Vec::new();
        while let Some((offset, bytes, _)) = r.pop(100) {
            seen.push((offset.value(), bytes.len()));
        }
        assert_eq!(seen, [(6, 2), (2, 4)]);
        assert!(!r.is_read_out());
        insert(&mut r, 0, "01", false).unwrap();
        assert!(r.pop(100).is_some() && r.is_read_out());
    }

    proptest! {
        #[test]
        fn any_order_with_duplicates_gives_the_stream_back(
            sizes in proptest::collection::vec(1usize..9, 1..30),
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 0..60),
            unordered: bool,
        ) {
            let total: usize = sizes.iter().sum();
            let data: Vec<u8> = (0..total).map(|n| n as u8).collect();
            let mut chunks = Vec::new();
            let mut at = 0;
            for size in sizes {
                chunks.push((at, size));
                at += size;
            }
            let mut order: Vec<_> = picks.iter().map(|pick| *pick.get(&chunks)).collect();
            order.extend(chunks);
            let mut r = Reassembly::new(STREAM);
            if unordered {
                r.set_unordered();
            }
            let mut out = vec![0; total];
            let mut read = 0;
            for (at, size) in order {
                let bytes = Bytes::copy_from_slice(&data[at..at + size]);
                r.insert(StreamOffset::new(at as u64), bytes, at + size == total).unwrap();
                while let Some((offset, bytes, _)) = r.pop(5) {
                    let offset = offset.value() as usize;
                    prop_assert!(unordered || offset == read);
                    out[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    read += bytes.len();
                }
            }
            prop_assert_eq!(read, total);
            prop_assert_eq!(out, data);
            prop_assert!(r.is_read_out());
        }
    }
}
