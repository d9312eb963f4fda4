/// The largest file: three rounds of it still fit into a stream's 2^62 bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 60;
/// The longest offer, with room for a later version's fields.
pub(crate) const MAX_OFFER_BYTES: usize = 8192;
/// The longest offer of version 1.
pub(super) const MAX_FILE_OFFER_BYTES: usize = 1024;

/// The maximum number of ranges that a receiver requests in one round.
pub(crate) const MAX_WANTED_RANGES: usize = 4096;
/// The longest answer: a full list of ranges.
pub(super) const MAX_ANSWER_BYTES: usize = ANSWER_HEADER_BYTES + RANGE_BYTES * MAX_WANTED_RANGES;
/// Kind and length of an answer.
pub(super) const ANSWER_HEADER_BYTES: usize = 5;
/// A range in an answer: start and length.
pub(super) const RANGE_BYTES: usize = 16;
