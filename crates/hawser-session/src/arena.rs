use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// A buffer that is filled from front to back while slices of what it held live on elsewhere, and
/// whose memory is used again once they are gone.
///
/// Memory that the kernel has just given is costly: every page of it faults once. So full buffers
/// are remembered, up to 4 MiB. The oldest whose slices are all gone takes the place of a new one.
#[derive(Debug, Default)]
pub struct Arena {
    current: BytesMut,
    /// The bytes of memory behind `current`, those split off included.
    size: usize,
    retired: VecDeque<Retired>,
    /// The bytes of memory behind all of `retired`.
    kept: usize,
    /// Tells `current` from the buffers before it.
    number: u64,
    /// Buffers that were full since the last [`Arena::trim`].
    turned: usize,
}

/// The empty end of a buffer that is full.
#[derive(Debug)]
struct Retired {
    end: BytesMut,
    size: usize,
}

impl Arena {
    /// Returns the contents of the buffer.
    pub(crate) fn bytes(&self) -> &BytesMut {
        &self.current
    }

    /// Returns the bytes of memory behind the buffer.
    pub(crate) fn size(&self) -> usize {
        self.size.max(self.current.capacity())
    }

    /// Returns the number of the buffer; another one has another number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The buffer, to append to and to split from the front.
    pub(crate) fn bytes_mut(&mut self) -> &mut BytesMut {
        &mut self.current
    }

    /// Makes room for `additional` more bytes; what the buffer holds stays, perhaps elsewhere.
    pub(crate) fn reserve(&mut self, additional: usize) {
        if self.current.try_reclaim(additional) {
            return;
        }
        let needed = self.current.len() + additional;
        let (mut next, size) = self
            .reuse(needed)
            .unwrap_or_else(|| (BytesMut::with_capacity(needed), needed));
        next.extend_from_slice(&self.current);
        let full = std::mem::replace(&mut self.current, next);
        self.number += 1;
        let size = std::mem::replace(&mut self.size, size).max(full.capacity());
        self.retire(full, size);
    }

    /// Returns an empty buffer to append at most 128 KiB to, with room for at least `least` bytes
    /// (at most 128 KiB). [`Arena::take`] gives what was appended.
    pub fn piece(&mut self, least: usize) -> &mut BytesMut {
        if self.current.capacity() < least {
            self.reserve(PIECE);
        }
        &mut self.current
    }

    /// Takes what was appended to the buffer. Less than an eighth of the memory behind it is
    /// copied, so that a slice keeps at most eight times its length alive.
    pub fn take(&mut self) -> Bytes {
        if self.current.len() < self.size() / 8 {
            let bytes = Bytes::copy_from_slice(&self.current);
            self.current.clear();
            return bytes;
        }
        self.current.split().freeze()
    }

    /// Copies as many of `bytes` as fit; never none, unless there are none.
    pub fn copy(&mut self, bytes: &[u8]) -> Bytes {
        let piece = self.piece(bytes.len().min(LEAST_COPY));
        let length = bytes.len().min(piece.capacity());
        piece.extend_from_slice(&bytes[..length]);
        self.take()
    }

    /// Gives back what was not needed since the last call: all of it when no buffer was full. Call
    /// it about once a second.
    pub fn trim(&mut self) {
        let needed = std::mem::take(&mut self.turned);
        while self.retired.len() > needed
            && let Some(oldest) = self.retired.pop_front()
        {
            self.kept -= oldest.size;
        }
        if needed == 0 && self.current.is_empty() {
            *self = Self {
                number: self.number + 1,
                ..Self::default()
            };
        }
    }

    /// Gives back full buffers that are kept to be used again, the latest first, until
    /// [`Arena::held`] is at most `most` or none is left: the oldest is the likeliest to be free.
    pub(crate) fn release_spare(&mut self, most: usize) {
        while self.held() > most
            && let Some(latest) = self.retired.pop_back()
        {
            self.kept -= latest.size;
        }
    }

    /// Gives back all that holds no bytes.
    pub(crate) fn release(&mut self) {
        self.turned = 0;
        self.trim();
    }

    /// Returns the bytes of memory that are kept for the next reads, with what waits in them.
    pub(crate) fn held(&self) -> usize {
        self.size() + self.kept
    }

    /// True if [`Arena::trim`] could give anything back, now or later.
    pub fn holds_memory(&self) -> bool {
        self.current.capacity() > 0 || !self.retired.is_empty()
    }

    fn retire(&mut self, mut full: BytesMut, size: usize) {
        if size == 0 {
            return;
        }
        self.turned += 1;
        if self.kept + size <= MOST_KEPT {
            // Only a handle without room of its own asks whether others still use the memory.
            let end = full.split_off(full.capacity());
            self.kept += size;
            self.retired.push_back(Retired { end, size });
        }
    }

    /// Takes out a retired buffer of at least `capacity` bytes that is unused, and its size. Drops
    /// smaller unused buffers that it finds on the way.
    fn reuse(&mut self, capacity: usize) -> Option<(BytesMut, usize)> {
        let mut at = 0;
        while let Some(retired) = self.retired.get_mut(at) {
            let fits = retired.end.try_reclaim(capacity);
            if !fits && !retired.end.try_reclaim(1) {
                at += 1;
                continue;
            }
            let retired = self.retired.remove(at)?;
            self.kept -= retired.size;
            if fits {
                return Some((retired.end, retired.size));
            }
        }
        None
    }
}

/// The most bytes of full buffers that one arena remembers. Buffers are rarely below 16 KiB, so
/// these are few enough to look through.
const MOST_KEPT: usize = 4 << 20;
/// Size of the buffers that copies are cut from.
const PIECE: usize = 128 * 1024;
/// Room below this at the end of a piece is left rather than making tiny copies.
const LEAST_COPY: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the buffer and splits all of it off; where its memory is, too.
    fn fill(arena: &mut Arena, size: usize) -> (Bytes, usize) {
        arena.reserve(size);
        let room = arena.bytes().capacity();
        arena.bytes_mut().resize(room, 7);
        let bytes = arena.bytes_mut().split().freeze();
        let place = bytes.as_ptr() as usize;
        (bytes, place)
    }

    #[test]
    fn memory_is_used_again_only_when_no_slice_of_it_lives() {
        let mut arena = Arena::default();
        let (first, place) = fill(&mut arena, 1000);
        let slice = first.slice(990..);
        let (second, elsewhere) = fill(&mut arena, 1000);
        drop((first, second));
        // Alone in its memory, the current buffer begins anew.
        let (third, again) = fill(&mut arena, 1000);
        assert_eq!(again, elsewhere);
        let (_fourth, other) = fill(&mut arena, 1000);
        assert!(other != place && other != elsewhere);
        assert_eq!(slice, [7; 10][..]);
        drop(slice);
        let (_fifth, reused) = fill(&mut arena, 1000);
        assert_eq!(reused, place);
        drop(third);
        assert_eq!(fill(&mut arena, 1000).1, elsewhere);
    }

    #[test]
    fn what_was_not_split_off_moves_along() {
        let mut arena = Arena::default();
        arena.reserve(10);
        arena.bytes_mut().extend_from_slice(b"heldrest");
        let held = arena.bytes_mut().split_to(4).freeze();
        arena.reserve(100);
        assert_eq!(&arena.bytes()[..], b"rest");
        assert!(arena.bytes().capacity() >= 104);
        assert_eq!(held, "held");
    }

    #[test]
    fn a_buffer_that_is_too_small_is_not_kept_once_free() {
        let mut arena = Arena::default();
        let (small, _) = fill(&mut arena, 100);
        let (_large, _) = fill(&mut arena, 1000);
        assert_eq!(arena.kept, 100);
        drop(small);
        let _next = fill(&mut arena, 1000);
        assert_eq!((arena.kept, arena.retired.len()), (1000, 1));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_given_back() {
        let mut arena = Arena::default();
        let held: Vec<_> = (0..100)
            .map(|_| fill(&mut arena, MOST_KEPT / 10).0)
            .collect();
        assert!(arena.kept <= MOST_KEPT && arena.retired.len() >= 9);
        drop(held);
        arena.trim();
        let _three: Vec<_> = (0..3).map(|_| fill(&mut arena, 1000).0).collect();
        arena.trim();
        assert!(arena.retired.len() <= 3 && arena.holds_memory());
        assert_eq!(
            arena.kept,
            arena.retired.iter().map(|old| old.size).sum::<usize>()
        );
        arena.trim();
        assert!(arena.retired.is_empty() && !arena.holds_memory());
    }

    #[test]
    fn what_waits_in_the_buffer_survives_a_trim() {
        let mut arena = Arena::default();
        arena.reserve(100);
        arena.bytes_mut().extend_from_slice(b"half a record");
        arena.trim();
        assert_eq!(&arena.bytes()[..], b"half a record");
    }

    #[test]
    fn copies_follow_one_another_and_are_what_was_given() {
        let mut arena = Arena::default();
        let data: Vec<u8> = (0..3 * PIECE + 5).map(|n| (n * 31 / 7) as u8).collect();
        let mut copies = Vec::new();
        let mut left = &data[..];
        while !left.is_empty() {
            let copy = arena.copy(&left[..left.len().min(50_000)]);
            left = &left[copy.len()..];
            copies.push(copy);
        }
        assert_eq!(copies.concat(), data);
        assert!(copies.len() <= 3 * PIECE / 50_000 + 1 + 4);
    }
}
