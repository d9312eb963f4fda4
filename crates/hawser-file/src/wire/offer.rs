use hawser_types::ByteCount;

use super::limits::{MAX_FILE_BYTES, MAX_OFFER_BYTES};
use super::{Cursor, Fault, VERSION};
use crate::name::{FileName, MAX_NAME_BYTES};

/// What the sender says about its file: the first bytes of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    /// The name to store it under.
    pub(crate) name: FileName,
    /// Its size, at most [`MAX_FILE_BYTES`].
    pub(crate) size: ByteCount,
    /// When it was last changed.
    pub(crate) modified: FileTime,
    /// Permission bits, at most `0o7777`; the receiver uses `0o777` of them, less its umask.
    pub(crate) mode: u32,
    /// Hash over size and both ends of the content, to tell a changed file from the same one.
    pub(crate) guard: [u8; 32],
}

/// A file's time: seconds since 1970, negative before, and nanoseconds below 10⁹.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileTime {
    /// Whole seconds.
    pub(crate) seconds: i64,
    /// Nanoseconds on top of them.
    pub(crate) nanoseconds: u32,
}

impl Offer {
    /// The offer as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = self.name.as_str().as_bytes();
        let rest = OFFER_FIXED_BYTES + name.len();
        let mut bytes = Vec::with_capacity(OFFER_HEADER_BYTES + rest);
        bytes.extend_from_slice(&OFFER_MAGIC);
        bytes.push(VERSION);
        bytes.push(0);
        // At most 58 + 255: `FileName` sees to it.
        bytes.extend_from_slice(&(rest as u16).to_be_bytes());
        bytes.extend_from_slice(&self.size.as_u64().to_be_bytes());
        bytes.extend_from_slice(&self.modified.seconds.to_be_bytes());
        bytes.extend_from_slice(&self.modified.nanoseconds.to_be_bytes());
        bytes.extend_from_slice(&self.mode.to_be_bytes());
        bytes.extend_from_slice(&self.guard);
        bytes.extend_from_slice(&(name.len() as u16).to_be_bytes());
        bytes.extend_from_slice(name);
        bytes
    }

    /// Reads an offer from the beginning of `bytes`.
    ///
    /// Returns it with its length, or `None` where more bytes are needed: never more than
    /// 1024 in all.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Fault> {
        let mut header = Cursor(bytes);
        let Some(magic) = header.array::<4>() else {
            return Ok(None);
        };
        if magic != OFFER_MAGIC {
            return Err(Fault::NotAnOffer);
        }
        let (Some(version), Some(_flags), Some(length)) =
            (header.byte(), header.byte(), header.u16())
        else {
            return Ok(None);
        };
        if version != VERSION {
            return Err(Fault::Version { found: version });
        }
        let length = usize::from(length);
        if length > MAX_OFFER_BYTES - OFFER_HEADER_BYTES {
            return Err(Fault::OfferTooLong { bytes: length });
        }
        let Some(body) = header.take(length) else {
            return Ok(None);
        };
        let offer = Self::decode_body(body)?;
        Ok(Some((offer, OFFER_HEADER_BYTES + length)))
    }

    /// Tells whether a transfer begun earlier is one of the same file.
    ///
    /// Permission bits are left out: changing them changes no content.
    pub(crate) fn identity(&self) -> Identity {
        let mut hasher = blake3::Hasher::new_derive_key(IDENTITY_CONTEXT);
        let plain = Self {
            mode: 0,
            ..self.clone()
        };
        hasher.update(&plain.encode());
        Identity(*hasher.finalize().as_bytes())
    }

    /// Bytes behind the name are a later version's and are skipped.
    fn decode_body(body: &[u8]) -> Result<Self, Fault> {
        let mut body = Cursor(body);
        let mut read = || {
            let size = body.u64()?;
            let seconds = body.u64()? as i64;
            let nanoseconds = body.u32()?;
            let mode = body.u32()?;
            let guard = body.array::<32>()?;
            let name_length = usize::from(body.u16()?);
            let name = body.take(name_length)?;
            Some((size, seconds, nanoseconds, mode, guard, name))
        };
        let (size, seconds, nanoseconds, mode, guard, name) = read().ok_or(Fault::OfferTooShort)?;
        if size > MAX_FILE_BYTES {
            return Err(Fault::Size { bytes: size });
        }
        if nanoseconds >= 1_000_000_000 {
            return Err(Fault::Time { nanoseconds });
        }
        if mode > 0o7777 {
            return Err(Fault::Mode { mode });
        }
        Ok(Self {
            name: FileName::from_bytes(name)?,
            size: ByteCount::new(size),
            modified: FileTime {
                seconds,
                nanoseconds,
            },
            mode,
            guard,
        })
    }
}

/// Names one file in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(pub(crate) [u8; 32]);

const OFFER_MAGIC: [u8; 4] = *b"HWSF";
/// Magic, version, flags, length of the rest.
const OFFER_HEADER_BYTES: usize = 8;
/// Size, time, mode, guard, length of the name.
const OFFER_FIXED_BYTES: usize = 8 + 8 + 4 + 4 + 32 + 2;
const IDENTITY_CONTEXT: &str = "hawser 2026-01 file transfer identity";

const _: () = assert!(OFFER_HEADER_BYTES + OFFER_FIXED_BYTES + MAX_NAME_BYTES <= MAX_OFFER_BYTES);
