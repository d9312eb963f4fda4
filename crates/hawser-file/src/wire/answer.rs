use hawser_types::ByteCount;

use super::limits::{ANSWER_HEADER_BYTES, MAX_ANSWER_BYTES, RANGE_BYTES};
use super::{Cursor, Fault};
use crate::byte_range::ByteRange;
use crate::content::FileHash;

/// A message of the receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Send these ranges, in this order, then the checksum. An empty list: send the checksum only.
    Want(Vec<ByteRange>),
    /// The file is complete under its name.
    Finished {
        /// True if the file existed before, so that no byte was written.
        already_there: bool,
        /// BLAKE3 of the file.
        hash: FileHash,
    },
    /// The transfer ends here.
    Refused {
        /// Why.
        refusal: Refusal,
        /// An explanation for people; at most 512 bytes.
        detail: String,
    },
}

impl Answer {
    /// Encodes the answer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Self::Want(ranges) => {
                for range in ranges {
                    body.extend_from_slice(&range.start().to_be_bytes());
                    body.extend_from_slice(&range.length().to_be_bytes());
                }
                KIND_WANT
            }
            Self::Finished {
                already_there,
                hash,
            } => {
                body.push(u8::from(*already_there));
                body.extend_from_slice(hash.as_bytes());
                KIND_FINISHED
            }
            Self::Refused { refusal, detail } => {
                body.extend_from_slice(&refusal.code().to_be_bytes());
                body.extend_from_slice(shortened(detail, MAX_DETAIL_BYTES).as_bytes());
                KIND_REFUSED
            }
        };
        let mut bytes = Vec::with_capacity(ANSWER_HEADER_BYTES + body.len());
        bytes.push(kind);
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.append(&mut body);
        bytes
    }

    /// Reads an answer about a file of `size` bytes from the beginning of `bytes`.
    ///
    /// Returns the answer with its length, or `None` if more bytes are needed: never more than 64
    /// KiB and 5 bytes in all.
    pub(crate) fn decode(bytes: &[u8], size: ByteCount) -> Result<Option<(Self, usize)>, Fault> {
        let mut cursor = Cursor(bytes);
        let (Some(kind), Some(length)) = (cursor.byte(), cursor.u32()) else {
            return Ok(None);
        };
        let length = length as usize;
        if length > MAX_ANSWER_BYTES - ANSWER_HEADER_BYTES {
            return Err(Fault::AnswerTooLong { bytes: length });
        }
        let Some(body) = cursor.take(length) else {
            return Ok(None);
        };
        let answer = match kind {
            KIND_WANT => Self::Want(decode_ranges(body, size.as_u64())?),
            KIND_FINISHED => match body {
                [already @ (0 | 1), hash @ ..] => Self::Finished {
                    already_there: *already == 1,
                    hash: FileHash::from_slice(hash).map_err(|_| Fault::AnswerBody { kind })?,
                },
                _ => return Err(Fault::AnswerBody { kind }),
            },
            KIND_REFUSED => {
                let mut body = Cursor(body);
                let code = body.u16().ok_or(Fault::AnswerBody { kind })?;
                Self::Refused {
                    refusal: Refusal::from_code(code),
                    detail: printable(body.0),
                }
            }
            _ => return Err(Fault::AnswerKind { kind }),
        };
        Ok(Some((answer, ANSWER_HEADER_BYTES + length)))
    }
}

/// Why a receiver refuses a file, as it tells the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The sender broke the protocol.
    Malformed,
    /// The receiver does not know this version of the protocol.
    Version,
    /// The name may not be used.
    Name,
    /// The file is larger than the receiver accepts.
    TooLarge,
    /// No room on the disk.
    DiskFull,
    /// The directory may not be written.
    Permission,
    /// A different file of that name exists.
    Exists,
    /// A file of the same name is being received from elsewhere.
    Busy,
    /// Too many files at once.
    TooManyFiles,
    /// The bytes on disk do not match the checksum.
    Mismatch,
    /// The sender's file changed while it was being sent.
    SourceChanged,
    /// Reading or writing at the receiver failed.
    Storage,
    /// A later attempt for the same file took over.
    Superseded,
    /// A refusal that this version does not know.
    Unknown(u16),
}

impl Refusal {
    /// Its number on the wire.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Malformed => 1,
            Self::Version => 2,
            Self::Name => 3,
            Self::TooLarge => 4,
            Self::DiskFull => 5,
            Self::Permission => 6,
            Self::Exists => 7,
            Self::Busy => 8,
            Self::TooManyFiles => 9,
            Self::Mismatch => 10,
            Self::SourceChanged => 11,
            Self::Storage => 12,
            Self::Superseded => 13,
            Self::Unknown(code) => code,
        }
    }

    /// Returns the refusal with a number.
    pub(crate) fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Malformed,
            2 => Self::Version,
            3 => Self::Name,
            4 => Self::TooLarge,
            5 => Self::DiskFull,
            6 => Self::Permission,
            7 => Self::Exists,
            8 => Self::Busy,
            9 => Self::TooManyFiles,
            10 => Self::Mismatch,
            11 => Self::SourceChanged,
            12 => Self::Storage,
            13 => Self::Superseded,
            code => Self::Unknown(code),
        }
    }
}

/// Decodes ranges. They must ascend without touching: then each byte is sent once at most.
fn decode_ranges(body: &[u8], size: u64) -> Result<Vec<ByteRange>, Fault> {
    if !body.len().is_multiple_of(RANGE_BYTES) {
        return Err(Fault::AnswerBody { kind: KIND_WANT });
    }
    let mut cursor = Cursor(body);
    let mut ranges = Vec::with_capacity(body.len() / RANGE_BYTES);
    let mut behind = None;
    while let (Some(start), Some(length)) = (cursor.u64(), cursor.u64()) {
        let range = ByteRange::with_length(start, length).ok_or(Fault::Ranges)?;
        if range.end() > size || behind.is_some_and(|end| start <= end) {
            return Err(Fault::Ranges);
        }
        behind = Some(range.end());
        ranges.push(range);
    }
    Ok(ranges)
}

/// Makes a text of the other end safe for a terminal and a log.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    shortened(&text, MAX_DETAIL_BYTES)
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Returns at most `limit` bytes of a text, without cutting a character in two.
fn shortened(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The longest explanation of a refusal.
const MAX_DETAIL_BYTES: usize = 512;
const KIND_WANT: u8 = 1;
const KIND_FINISHED: u8 = 2;
const KIND_REFUSED: u8 = 3;
