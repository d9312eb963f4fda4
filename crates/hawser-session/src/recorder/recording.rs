//! Recordings as files. `docs/design/recorder.md` has every byte.

use hawser_sched::chunk::{ChunkPolicy, Reason};
use hawser_types::{Instant, LinkIndex, StreamId};

use super::Recorder;
use super::block::{Block, is_sound, notes_block};
use super::bytes::{Reader, put, put_bytes};
use super::entry::Entry;
use super::view::FIELDS;
use crate::side::Side;

/// The record of a session, apart from the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Facts beside the entries.
    pub head: Head,
    blocks: Vec<Vec<u8>>,
}

/// Facts on a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which side of the session recorded it.
    pub side: Side,
    /// The policy for bulk when it was taken.
    pub policy: ChunkPolicy,
    /// Time when the session began, on the clock of the entries.
    pub began: Instant,
    /// Time when it was taken, on the same clock.
    pub taken: Instant,
    /// Time when it was taken, in milliseconds since 1970-01-01 00:00 UTC; 0 in virtual time.
    pub taken_unix_ms: u64,
    /// Every decision since the beginning is there.
    pub is_whole: bool,
    /// The names of links, where they are known.
    pub links: Vec<(LinkIndex, String)>,
    /// Destinations of streams, if the caller asked for them.
    pub destinations: Vec<(StreamId, String)>,
}

/// Bytes that are no recording, or none that can be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// They don't begin as one.
    #[error("this is no recording of hawser")]
    Other,
    /// They are of another version of the format.
    #[error("a recording of version {0}; known is {VERSION}")]
    Version(u64),
    /// Made by a program whose policies, reasons or views are not known here.
    #[error("the recording was made by another version of hawser: its {0} differ")]
    Tables(&'static str),
    /// The head or a block ends too early or says what can't be.
    #[error("the recording is cut or damaged")]
    Damaged,
}

impl Recorder {
    /// Returns the entries kept now, with what the caller knows of them. Of `head`, the recorder
    /// itself says when the session began and whether all is there.
    pub fn recording(&self, head: Head) -> Recording {
        let mut blocks: Vec<Vec<u8>> = self.ring.blocks().map(<[u8]>::to_vec).collect();
        let lost = self.ring.has_lost();
        if lost {
            // Notes that are older than the oldest block.
            let oldest = self.entries().next().map(|entry| entry.at());
            let older = self.notes.iter().take_while(|(at, _)| Some(*at) < oldest);
            blocks.insert(0, notes_block(older));
        }
        Recording {
            head: Head {
                began: self.began,
                is_whole: !lost,
                ..head
            },
            blocks,
        }
    }
}

impl Recording {
    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = &self.head;
        let mut out = MAGIC.to_vec();
        put(&mut out, VERSION);
        for (_, table) in tables() {
            put(&mut out, table.len() as u64);
            table
                .iter()
                .for_each(|name| put_bytes(&mut out, name.as_bytes()));
        }
        put(&mut out, u64::from(head.side == Side::Gateway));
        let policy = ChunkPolicy::ALL.iter().position(|it| *it == head.policy);
        put(&mut out, policy.unwrap_or_default() as u64);
        put(&mut out, head.began.as_nanos());
        put(&mut out, head.taken.as_nanos());
        put(&mut out, head.taken_unix_ms);
        put(&mut out, u64::from(head.is_whole));
        put(&mut out, head.links.len() as u64);
        for (link, name) in &head.links {
            put(&mut out, link.value().into());
            put_bytes(&mut out, name.as_bytes());
        }
        put(&mut out, head.destinations.len() as u64);
        for (stream, name) in &head.destinations {
            put(&mut out, stream.value());
            put_bytes(&mut out, name.as_bytes());
        }
        put(&mut out, self.blocks.len() as u64);
        self.blocks
            .iter()
            .for_each(|block| put_bytes(&mut out, block));
        out
    }

    /// Reads a file; all of it, so that [`Recording::entries`] finds no fault afterwards.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(RecordingError::Other)?;
        let mut reader = Reader(rest);
        let version = reader.number().ok_or(RecordingError::Damaged)?;
        if version != VERSION {
            return Err(RecordingError::Version(version));
        }
        for (name, table) in tables() {
            let known = read_table(&mut reader).ok_or(RecordingError::Damaged)?;
            // Newer programs only append.
            if known.len() > table.len() || known.iter().zip(&table).any(|(a, b)| a != b) {
                return Err(RecordingError::Tables(name));
            }
        }
        let recording = read_rest(&mut reader).ok_or(RecordingError::Damaged)?;
        let sound = recording.blocks.iter().all(|block| is_sound(block));
        if sound && reader.is_empty() {
            Ok(recording)
        } else {
            Err(RecordingError::Damaged)
        }
    }

    /// Its decisions and notes, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.blocks.iter().flat_map(|block| Block::new(block))
    }
}

/// Names of the numbers in entries.
fn tables() -> [(&'static str, Vec<&'static str>); 3] {
    let policies = ChunkPolicy::ALL.map(ChunkPolicy::name).to_vec();
    let reasons = Reason::ALL.map(Reason::name).to_vec();
    [
        ("policies", policies),
        ("reasons", reasons),
        ("views", FIELDS.to_vec()),
    ]
}

fn read_table<'a>(reader: &mut Reader<'a>) -> Option<Vec<&'a str>> {
    let count = reader.bounded(MAX_TABLE)?;
    (0..count)
        .map(|_| std::str::from_utf8(reader.bytes(MAX_NAME)?).ok())
        .collect()
}

fn read_rest(reader: &mut Reader<'_>) -> Option<Recording> {
    let side = match reader.bounded(1)? {
        0 => Side::Client,
        _ => Side::Gateway,
    };
    let policy = *ChunkPolicy::ALL.get(reader.bounded(MAX_TABLE)?)?;
    let (began, taken) = (reader.number()?, reader.number()?);
    let taken_unix_ms = reader.number()?;
    let is_whole = reader.bounded(1)? == 1;
    let mut links = Vec::new();
    for _ in 0..reader.bounded(MAX_NAMES)? {
        let link = u32::try_from(reader.number()?).ok()?;
        links.push((LinkIndex::new(link), read_name(reader)?));
    }
    let mut destinations = Vec::new();
    for _ in 0..reader.bounded(MAX_NAMES)? {
        destinations.push((StreamId::new(reader.number()?), read_name(reader)?));
    }
    let mut blocks = Vec::new();
    // A block has a byte at least, so that their number is bounded by what is there.
    for _ in 0..reader.bounded(reader.0.len())? {
        blocks.push(reader.bytes(usize::MAX)?.to_vec());
    }
    let head = Head {
        side,
        policy,
        began: Instant::from_nanos(began),
        taken: Instant::from_nanos(taken),
        taken_unix_ms,
        is_whole,
        links,
        destinations,
    };
    Some(Recording { head, blocks })
}

fn read_name(reader: &mut Reader<'_>) -> Option<String> {
    let name = std::str::from_utf8(reader.bytes(MAX_NAME)?).ok()?;
    Some(name.to_owned())
}

const MAGIC: &[u8] = b"hawser recording\n";
/// The version of the format.
const VERSION: u64 = 1;
const MAX_TABLE: usize = 64;
const MAX_NAMES: usize = 4096;
const MAX_NAME: usize = 1024;
