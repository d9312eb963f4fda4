use thiserror::Error;

use super::NEWEST_VERSION;
use super::limits::{MAX_ANSWER_BYTES, MAX_FILE_BYTES, MAX_OFFER_BYTES};
use crate::link_target::LinkError;
use crate::name::NameError;

/// How the other end broke the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The stream does not begin with an offer.
    #[error("the stream does not begin like a file transfer")]
    NotAnOffer,
    /// An offer of another version.
    #[error("file transfer version {found} is not known here, only up to {NEWEST_VERSION}")]
    Version {
        /// The version in the offer.
        found: u8,
    },
    /// The offer is longer than allowed.
    #[error("the offer has {bytes} bytes, more than {MAX_OFFER_BYTES}")]
    OfferTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The offer's fields do not fit into its length.
    #[error("the offer is too short for its fields")]
    OfferTooShort,
    /// The name is not acceptable.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A symbolic link is not acceptable.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An entry that is no file, directory, link or input.
    #[error("the offer is of the unknown kind {kind}")]
    Kind {
        /// Its kind.
        kind: u8,
    },
    /// A size that no file has.
    #[error("the offer's size {bytes} is more than {MAX_FILE_BYTES}")]
    Size {
        /// The size.
        bytes: u64,
    },
    /// Nanoseconds of a second or more.
    #[error("the offer's modification time has {nanoseconds} nanoseconds")]
    Time {
        /// The nanoseconds in the offer.
        nanoseconds: u32,
    },
    /// Bits outside of `0o7777`.
    #[error("the offer's mode {mode:#o} has bits that no file has")]
    Mode {
        /// The mode in the offer.
        mode: u32,
    },
    /// Bytes at an offset that was not requested.
    #[error("bytes at stream offset {offset} were not asked for")]
    NotAskedFor {
        /// The stream offset.
        offset: u64,
    },
    /// The trailer is malformed.
    #[error("the checksum at the end of the data is malformed")]
    Trailer,
    /// More holes than any reordering causes.
    #[error("the data came in more than {limit} separate pieces")]
    TooFragmented {
        /// The maximum number of pieces.
        limit: usize,
    },
    /// The answer is longer than allowed.
    #[error("the answer has {bytes} bytes, more than {MAX_ANSWER_BYTES}")]
    AnswerTooLong {
        /// Its length.
        bytes: usize,
    },
    /// An answer of no known kind.
    #[error("the answer is of the unknown kind {kind}")]
    AnswerKind {
        /// Its kind.
        kind: u8,
    },
    /// The answer's fields do not fit into its length.
    #[error("the answer of kind {kind} is malformed")]
    AnswerBody {
        /// Its kind.
        kind: u8,
    },
    /// Wanted ranges that overlap, descend, are empty or lie outside the file.
    #[error("the wanted ranges are not ascending within the file")]
    Ranges,
    /// An answer at a time when none is allowed.
    #[error("an answer came before it was due")]
    Unexpected,
    /// More rounds than one transfer may have.
    #[error("the receiver asked for the file again more than {limit} times")]
    TooManyRounds {
        /// The maximum number of rounds.
        limit: usize,
    },
    /// The hash in the receiver's result is not the file's.
    #[error("the receiver reports another checksum than the file has")]
    Verdict,
}
