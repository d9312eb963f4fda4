use std::time::{Duration, SystemTime};

use hawser_types::ByteCount;

use super::limits::{MAX_FILE_BYTES, MAX_FILE_OFFER_BYTES, MAX_OFFER_BYTES};
use super::{Cursor, Fault, NEWEST_VERSION, OLDEST_VERSION};
use crate::content::FileHash;
use crate::entry_path::EntryPath;
use crate::link_target::{LinkTarget, MAX_TARGET_BYTES};
use crate::name::{FileName, MAX_NAME_BYTES, MAX_PATH_BYTES};

/// The sender's description of its file: the first bytes of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    /// The path to store it under.
    pub(crate) path: EntryPath,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its size, at most [`MAX_FILE_BYTES`]; 0 unless it is a file of known size.
    pub(crate) size: ByteCount,
    /// Its last modification time.
    pub(crate) modified: FileTime,
    /// Permission bits, at most `0o7777`; the receiver uses `0o777` of them, minus its umask.
    pub(crate) mode: u32,
    /// Hash over size and both ends of the content, to detect a changed file; zeros unless it is a
    /// file of known size.
    pub(crate) guard: [u8; 32],
}

/// The kind of an offered entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A file whose size is known.
    File,
    /// A directory, without its contents.
    Directory,
    /// A symbolic link.
    Link(LinkTarget),
    /// Output of a program: its size is known only at the end.
    Input,
}

impl Kind {
    fn code(&self) -> u8 {
        match self {
            Self::File => KIND_FILE,
            Self::Directory => KIND_DIRECTORY,
            Self::Link(_) => KIND_LINK,
            Self::Input => KIND_INPUT,
        }
    }

    fn target(&self) -> &str {
        match self {
            Self::Link(target) => target.as_str(),
            _ => "",
        }
    }

    /// Returns the hash that the receiver's result has for a directory or a link: that of the
    /// link's target, or of no bytes.
    pub(crate) fn bare_hash(&self) -> FileHash {
        blake3::hash(self.target().as_bytes())
    }

    fn decode(code: u8, path: &EntryPath, target: &[u8]) -> Result<Self, Fault> {
        Ok(match code {
            KIND_FILE => Self::File,
            KIND_DIRECTORY => Self::Directory,
            KIND_LINK => Self::Link(LinkTarget::new(path, target)?),
            KIND_INPUT => Self::Input,
            kind => return Err(Fault::Kind { kind }),
        })
    }
}

/// A file's time: seconds since 1970, negative before, and nanoseconds below 10⁹.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileTime {
    /// Whole seconds.
    pub(crate) seconds: i64,
    /// Nanoseconds to add to `seconds`.
    pub(crate) nanoseconds: u32,
}

impl FileTime {
    /// Converts the time for the standard library; `None` if it is out of its range.
    pub(crate) fn as_system_time(self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = if self.seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(seconds)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(seconds)
        };
        whole?.checked_add(Duration::from_nanos(self.nanoseconds.into()))
    }
}

impl Offer {
    /// Encodes the offer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let path = self.path.to_string();
        let version = self.version();
        let mut bytes = Vec::with_capacity(OFFER_HEADER_BYTES + OFFER_FIXED_BYTES + path.len());
        bytes.extend_from_slice(&OFFER_MAGIC);
        bytes.push(version);
        bytes.push(0);
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.size.as_u64().to_be_bytes());
        bytes.extend_from_slice(&self.modified.seconds.to_be_bytes());
        bytes.extend_from_slice(&self.modified.nanoseconds.to_be_bytes());
        bytes.extend_from_slice(&self.mode.to_be_bytes());
        bytes.extend_from_slice(&self.guard);
        bytes.extend_from_slice(&(path.len() as u16).to_be_bytes());
        bytes.extend_from_slice(path.as_bytes());
        if version > OLDEST_VERSION {
            let target = self.kind.target().as_bytes();
            bytes.push(self.kind.code());
            bytes.extend_from_slice(&(target.len() as u16).to_be_bytes());
            bytes.extend_from_slice(target);
        }
        // Below 2^16: `EntryPath` and `LinkTarget` ensure that.
        let rest = (bytes.len() - OFFER_HEADER_BYTES) as u16;
        bytes[OFFER_HEADER_BYTES - 2..OFFER_HEADER_BYTES].copy_from_slice(&rest.to_be_bytes());
        bytes
    }

    /// Returns the lowest sufficient version, so that older receivers accept what they can.
    fn version(&self) -> u8 {
        match self.kind {
            Kind::File if self.path.folders().is_empty() => OLDEST_VERSION,
            _ => NEWEST_VERSION,
        }
    }

    /// Reads an offer from the beginning of `bytes`.
    ///
    /// Returns the offer with its length, or `None` if more bytes are needed: never more than 8192
    /// in all.
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
        if !(OLDEST_VERSION..=NEWEST_VERSION).contains(&version) {
            return Err(Fault::Version { found: version });
        }
        let length = usize::from(length);
        let limit = match version {
            OLDEST_VERSION => MAX_FILE_OFFER_BYTES,
            _ => MAX_OFFER_BYTES,
        };
        if length > limit - OFFER_HEADER_BYTES {
            return Err(Fault::OfferTooLong { bytes: length });
        }
        let Some(body) = header.take(length) else {
            return Ok(None);
        };
        let offer = Self::decode_body(version, body)?;
        Ok(Some((offer, OFFER_HEADER_BYTES + length)))
    }

    /// Returns the identity that tells whether an earlier transfer was of the same file.
    ///
    /// Permission bits are left out: a change of these changes no content.
    pub(crate) fn identity(&self) -> Identity {
        let mut hasher = blake3::Hasher::new_derive_key(IDENTITY_CONTEXT);
        let plain = Self {
            mode: 0,
            ..self.clone()
        };
        hasher.update(&plain.encode());
        Identity(*hasher.finalize().as_bytes())
    }

    /// Decodes the fields. Bytes behind the last field belong to a later version and are skipped.
    fn decode_body(version: u8, body: &[u8]) -> Result<Self, Fault> {
        let mut body = Cursor(body);
        let mut read = || {
            let size = body.u64()?;
            let seconds = body.u64()? as i64;
            let nanoseconds = body.u32()?;
            let mode = body.u32()?;
            let guard = body.array::<32>()?;
            let name_length = usize::from(body.u16()?);
            let name = body.take(name_length)?;
            if version == OLDEST_VERSION {
                return Some((size, seconds, nanoseconds, mode, guard, name, None));
            }
            let kind = body.byte()?;
            let target_length = usize::from(body.u16()?);
            let target = body.take(target_length)?;
            let more = Some((kind, target));
            Some((size, seconds, nanoseconds, mode, guard, name, more))
        };
        let (size, seconds, nanoseconds, mode, guard, name, more) =
            read().ok_or(Fault::OfferTooShort)?;
        if size > MAX_FILE_BYTES {
            return Err(Fault::Size { bytes: size });
        }
        if nanoseconds >= 1_000_000_000 {
            return Err(Fault::Time { nanoseconds });
        }
        if mode > 0o7777 {
            return Err(Fault::Mode { mode });
        }
        let (path, kind) = match more {
            None => (FileName::from_bytes(name)?.into(), Kind::File),
            Some((kind, target)) => {
                let path = EntryPath::from_bytes(name)?;
                let kind = Kind::decode(kind, &path, target)?;
                (path, kind)
            }
        };
        // No other kind has a size: disk space is allocated by this field.
        let size = if kind == Kind::File { size } else { 0 };
        Ok(Self {
            path,
            kind,
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

/// Identifies one file in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(pub(crate) [u8; 32]);

const OFFER_MAGIC: [u8; 4] = *b"HWSF";
/// Magic, version, flags, length of the rest.
const OFFER_HEADER_BYTES: usize = 8;
/// Size, time, mode, guard, length of the name.
const OFFER_FIXED_BYTES: usize = 8 + 8 + 4 + 4 + 32 + 2;
const IDENTITY_CONTEXT: &str = "hawser 2026-01 file transfer identity";

/// Kind and length of the target.
const OFFER_FURTHER_BYTES: usize = 1 + 2;

const KIND_FILE: u8 = 0;
const KIND_DIRECTORY: u8 = 1;
const KIND_LINK: u8 = 2;
const KIND_INPUT: u8 = 3;

const _: () =
    assert!(OFFER_HEADER_BYTES + OFFER_FIXED_BYTES + MAX_NAME_BYTES <= MAX_FILE_OFFER_BYTES);
const _: () = assert!(
    OFFER_HEADER_BYTES
        + OFFER_FIXED_BYTES
        + MAX_PATH_BYTES
        + OFFER_FURTHER_BYTES
        + MAX_TARGET_BYTES
        <= MAX_OFFER_BYTES
);
