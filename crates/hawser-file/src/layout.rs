//! The place of each byte of a stream.
//!
//! Once the receiver has requested ranges, the place of every later byte follows from its offset in
//! the stream alone. So a chunk can be written to its place in the file whatever channel it arrived
//! by and whatever is still missing before it.

use bytes::Bytes;
use hawser_types::RangeSet;

use super::byte_range::ByteRange;
use super::wire::Fault;

/// One round of a transfer on the stream: the wanted bytes back to back, then the trailer.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Stream offset of the round's first byte.
    origin: u64,
    /// Stream offset at which each wanted range begins, ascending.
    wanted: Vec<(u64, ByteRange)>,
    /// Stream offset of the trailer.
    trailer: u64,
    /// Stream offset behind the trailer.
    end: u64,
}

impl Layout {
    /// Computes the layout of the round that begins at stream offset `origin`.
    pub(super) fn new(origin: u64, wanted: &[ByteRange], trailer_length: usize) -> Self {
        let mut at = origin;
        let wanted = wanted
            .iter()
            .map(|&range| {
                let placed = (at, range);
                at = at.saturating_add(range.length());
                placed
            })
            .collect();
        Self {
            origin,
            wanted,
            trailer: at,
            end: at.saturating_add(trailer_length as u64),
        }
    }

    /// Stream offset behind the round's last byte: the beginning of the next round.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Cuts a chunk into pieces with their places, ascending.
    ///
    /// Bytes before the round are repetitions and are discarded; bytes behind it are a fault.
    pub(super) fn place(&self, offset: u64, chunk: &Bytes) -> Result<Vec<Piece>, Fault> {
        let chunk_end = offset
            .checked_add(chunk.len() as u64)
            .filter(|&end| end <= self.end)
            .ok_or(Fault::NotAskedFor {
                offset: offset.max(self.end),
            })?;
        let Some(range) = ByteRange::new(offset.max(self.origin), chunk_end) else {
            return Ok(Vec::new());
        };
        let slice = |part: ByteRange| {
            chunk.slice((part.start() - offset) as usize..(part.end() - offset) as usize)
        };
        let mut pieces = Vec::new();
        let first = self
            .wanted
            .partition_point(|&(at, wanted)| at + wanted.length() <= range.start());
        for &(at, wanted) in self.wanted.iter().skip(first) {
            let place = ByteRange::with_length(at, wanted.length());
            let Some(part) = place.and_then(|place| place.intersection(range)) else {
                break;
            };
            pieces.push(Piece::File {
                offset: wanted.start() + (part.start() - at),
                bytes: slice(part),
            });
        }
        let behind = ByteRange::new(self.trailer, self.end);
        if let Some(part) = behind.and_then(|place| place.intersection(range)) {
            pieces.push(Piece::Trailer {
                offset: (part.start() - self.trailer) as usize,
                bytes: slice(part),
            });
        }
        Ok(pieces)
    }
}

/// A part of a chunk and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Bytes of the file.
    File {
        /// Offset in the file.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Bytes of the trailer.
    Trailer {
        /// Offset in the trailer.
        offset: usize,
        /// The bytes.
        bytes: Bytes,
    },
}

/// Assembles a short message from pieces that arrive in any order.
#[derive(Debug)]
pub(super) struct Assembly {
    bytes: Vec<u8>,
    held: RangeSet,
    limit: usize,
}

impl Assembly {
    /// Begins an empty message of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            held: RangeSet::new(),
            limit,
        }
    }

    /// Puts a piece in its place.
    pub(super) fn put(&mut self, offset: usize, piece: &[u8]) -> Result<(), Fault> {
        let end = offset
            .checked_add(piece.len())
            .filter(|&end| end <= self.limit)
            .ok_or(Fault::NotAskedFor {
                offset: offset.max(self.limit) as u64,
            })?;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        if let Some(place) = self.bytes.get_mut(offset..end) {
            place.copy_from_slice(piece);
        }
        self.held.insert(offset as u64..end as u64);
        Ok(())
    }

    /// Returns the bytes from the beginning to the first hole.
    pub(super) fn ready(&self) -> &[u8] {
        let ready = usize::try_from(self.held.prefix()).unwrap_or(usize::MAX);
        self.bytes.get(..ready).unwrap_or(&self.bytes)
    }

    /// Number of separate pieces.
    pub(super) fn fragments(&self) -> usize {
        self.held.range_count()
    }

    /// End of the last piece, holes included.
    pub(super) fn reach(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::byte_range::byte_ranges;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).expect("a range of the test is not empty")
    }

    fn file(offset: u64, bytes: &'static [u8]) -> Piece {
        Piece::File {
            offset,
            bytes: Bytes::from_static(bytes),
        }
    }

    #[test]
    fn a_chunk_over_all_borders_is_cut_at_each() {
        let layout = Layout::new(10, &[range(100, 103), range(200, 202)], 4);
        assert_eq!(layout.end(), 19);
        let pieces = layout.place(8, &Bytes::from_static(b"xxabcdeTRAI"));
        assert_eq!(
            pieces,
            Ok(vec![
                file(100, b"abc"),
                file(200, b"de"),
                Piece::Trailer {
                    offset: 0,
                    bytes: Bytes::from_static(b"TRAI"),
                },
            ])
        );
        assert_eq!(layout.place(0, &Bytes::from_static(b"old")), Ok(vec![]));
    }

    #[test]
    fn offsets_beyond_four_gibibytes_map_exactly() {
        const GIB: u64 = 1 << 30;
        let layout = Layout::new(
            80,
            &[range(4 * GIB - 1, 6 * GIB), range(10 * GIB, 17 * GIB)],
            33,
        );
        let at = 80 + (2 * GIB + 1) + 5 * GIB;
        assert_eq!(
            layout.place(at, &Bytes::from_static(b"z")),
            Ok(vec![file(15 * GIB, b"z")])
        );
        let across = 80 + 2 * GIB;
        assert_eq!(
            layout.place(across, &Bytes::from_static(b"yz")),
            Ok(vec![file(6 * GIB - 1, b"y"), file(10 * GIB, b"z")])
        );
        assert_eq!(layout.end(), 80 + 9 * GIB + 1 + 33);
    }

    #[test]
    fn bytes_that_were_not_asked_for_are_a_fault() {
        let layout = Layout::new(0, &[range(0, 3)], 2);
        let beyond = Err(Fault::NotAskedFor { offset: 5 });
        assert_eq!(layout.place(0, &Bytes::from_static(b"abcdef")), beyond);
        assert_eq!(
            layout.place(u64::MAX, &Bytes::from_static(b"ab")),
            Err(Fault::NotAskedFor { offset: u64::MAX })
        );
    }

    #[test]
    fn a_message_is_ready_up_to_its_first_hole() {
        let mut message = Assembly::new(6);
        assert_eq!(message.put(4, b"ef"), Ok(()));
        assert_eq!(message.ready(), b"");
        assert_eq!(message.put(0, b"abc"), Ok(()));
        assert_eq!(message.ready(), b"abc");
        assert_eq!(message.put(3, b"d"), Ok(()));
        assert_eq!(message.ready(), b"abcdef");
        assert_eq!(message.put(5, b"xy"), Err(Fault::NotAskedFor { offset: 6 }));
        assert!(message.put(usize::MAX, b"x").is_err());
    }

    proptest! {
        #[test]
        fn every_byte_lands_where_the_ranges_in_order_say(
            origin in 0..50u64,
            wanted in prop::collection::vec((0..300u64, 1..20u64), 0..12),
            trailer in 1..40usize,
            cuts in prop::collection::vec((0..400u64, 0..60u64), 1..30),
        ) {
            let set: RangeSet = wanted.iter().map(|&(s, l)| s..s + l).collect();
            let wanted: Vec<_> = byte_ranges(set.iter()).collect();
            let layout = Layout::new(origin, &wanted, trailer);
            let order: Vec<u64> = wanted.iter().flat_map(|r| r.start()..r.end()).collect();
            for (offset, length) in cuts {
                let chunk: Bytes = (offset..offset + length).map(|at| at as u8).collect();
                let Ok(pieces) = layout.place(offset, &chunk) else {
                    prop_assert!(offset + length > layout.end());
                    continue;
                };
                let mut at = offset.max(origin);
                for piece in pieces {
                    let (bytes, place) = match &piece {
                        Piece::File { offset, bytes } => (bytes, *offset),
                        Piece::Trailer { offset, bytes } => (bytes, *offset as u64),
                    };
                    for (step, &byte) in bytes.iter().enumerate() {
                        prop_assert_eq!(byte, at as u8);
                        let index = (at - origin) as usize;
                        let expected = order.get(index).copied();
                        let trailer_at = index.checked_sub(order.len()).map(|at| at as u64);
                        prop_assert_eq!(Some(place + step as u64), expected.or(trailer_at));
                        at += 1;
                    }
                }
                prop_assert_eq!(at, (offset + length).max(offset.max(origin)).max(origin));
            }
        }
    }
}
