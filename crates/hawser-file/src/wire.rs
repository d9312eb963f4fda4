//! The messages of a transfer and their bytes. All numbers are big-endian.
//!
//! `docs/design/file-transfer.md` has the layouts as tables.

mod answer;
mod fault;
mod limits;
mod offer;
#[cfg(test)]
mod tests;
mod trailer;

pub(super) use answer::Answer;
pub use answer::Refusal;
pub use fault::Fault;
pub(super) use limits::{MAX_FILE_BYTES, MAX_OFFER_BYTES, MAX_WANTED_RANGES};
pub(super) use offer::{FileTime, Identity, Kind, Offer};
pub(super) use trailer::Trailer;

/// Reads fields from the front of a slice.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// The first version, which supports only plain files without folders.
const OLDEST_VERSION: u8 = 1;
/// The version that supports paths, directories, symbolic links, and input of unknown length.
const NEWEST_VERSION: u8 = 2;
