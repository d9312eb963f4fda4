//! Messages whose path the owner has chosen.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use hawser_types::{Instant, PathId};
use hawser_wire::sctp::{Data, DataOrder, StreamNumber, Tsn};
use smallvec::SmallVec;

/// Chunks that wait to leave over the path that the owner has chosen, once.
///
/// They have their TSNs already, so that these tell the peer in which order the owner placed them,
/// over whichever path each has come.
#[derive(Debug)]
pub(super) struct PlacedQueue {
    stream: Option<StreamNumber>,
    paths: BTreeMap<PathId, Line>,
    chunks: u64,
    /// Number of the last message that was sent in parts.
    number: u32,
    /// Messages that were lost, for the owner; the oldest go first.
    lost: VecDeque<LostMessage>,
}

/// A message of [`Association::send_over`](crate::Association::send_over).
///
/// Its payload is `front` and then `payload`. They are put together in the packet, so that a caller
/// who adds a header copies no payload for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedMessage {
    /// First bytes of the payload.
    pub front: Front,
    /// The rest of the payload.
    pub payload: Bytes,
}

/// A few bytes that a message begins with.
pub type Front = SmallVec<[u8; 8]>;

/// A message of [`Association::send_over`](crate::Association::send_over) that counts as lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostMessage {
    /// The message.
    pub message: PlacedMessage,
    /// When it left; `None` if it did not.
    pub left_at: Option<Instant>,
}

/// Chunks that wait for one path.
#[derive(Debug, Default)]
struct Line {
    chunks: VecDeque<u64>,
    bytes: u64,
}

impl PlacedMessage {
    /// Its length in bytes.
    pub(crate) fn length(&self) -> usize {
        self.front.len() + self.payload.len()
    }
}

impl From<Bytes> for PlacedMessage {
    fn from(payload: Bytes) -> Self {
        Self {
            front: Front::new(),
            payload,
        }
    }
}

impl PlacedQueue {
    /// `stream`: the stream of these messages, which no others use.
    pub(super) fn new(stream: Option<StreamNumber>) -> Self {
        Self {
            stream,
            paths: BTreeMap::new(),
            chunks: 0,
            number: 0,
            lost: VecDeque::new(),
        }
    }

    pub(super) fn stream(&self) -> Option<StreamNumber> {
        self.stream
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks == 0
    }

    /// Returns the payload that waits for a path.
    pub(super) fn bytes_on(&self, path: PathId) -> u64 {
        self.paths.get(&path).map_or(0, |line| line.bytes)
    }

    /// Cuts a message into chunks. `limit` returns the most bytes of a chunk in this order, at
    /// least 1.
    ///
    /// Nearly all are one chunk. Only those that are not count in the message numbers: a chunk that
    /// is alone needs no number of its own, and one that stays small is one byte in a compact
    /// packet. What a FORWARD-TSN names is right all the same: the number of a whole message is
    /// that of the last one in parts before it.
    ///
    /// The first chunk has the front, whole: it is shorter than any limit of a path.
    pub(super) fn cut(
        &mut self,
        message: PlacedMessage,
        limit: impl Fn(StreamNumber, &DataOrder) -> usize,
    ) -> SmallVec<[(Front, Data); 2]> {
        let stream = self.stream.unwrap_or_default();
        let limit = |message: u32| {
            let order = DataOrder::Interleaved {
                message,
                fragment: 0,
            };
            limit(stream, &order).max(1)
        };
        if message.length() > limit(self.number) {
            self.number = self.number.wrapping_add(1);
        }
        let number = self.number;
        let limit = limit(number);
        let (mut front, mut rest, mut fragment) = (message.front, message.payload, 0);
        let parts = std::iter::from_fn(|| {
            if rest.is_empty() && front.is_empty() {
                return None;
            }
            let front = std::mem::take(&mut front);
            let part = rest.split_to(limit.saturating_sub(front.len()).min(rest.len()));
            let data = Data {
                tsn: Tsn::default(),
                stream,
                order: DataOrder::Interleaved {
                    message: number,
                    fragment,
                },
                unordered: true,
                first: fragment == 0,
                last: rest.is_empty(),
                immediate: false,
                protocol: 0,
                payload: part,
            };
            fragment += 1;
            Some((front, data))
        });
        parts.collect()
    }

    /// Adds a chunk that waits for a path.
    pub(super) fn push(&mut self, path: PathId, chunk: u64, bytes: usize) {
        let line = self.paths.entry(path).or_default();
        line.chunks.push_back(chunk);
        line.bytes += bytes as u64;
        self.chunks += 1;
    }

    /// Returns the path of the chunk that was placed first, among those of paths that are ready.
    pub(super) fn next_path(&self, is_ready: impl Fn(PathId) -> bool) -> Option<PathId> {
        let fronts = self.paths.iter();
        let fronts = fronts.filter_map(|(path, line)| Some((*line.chunks.front()?, *path)));
        let ready = fronts.filter(|(_, path)| is_ready(*path));
        ready.min().map(|(_, path)| path)
    }

    /// Returns the next chunk of a path.
    pub(super) fn next_on(&self, path: PathId) -> Option<u64> {
        self.paths.get(&path)?.chunks.front().copied()
    }

    /// Takes out the next chunk of a path.
    pub(super) fn pop(&mut self, path: PathId, bytes: u64) {
        if let Some(line) = self.paths.get_mut(&path)
            && line.chunks.pop_front().is_some()
        {
            line.bytes -= bytes;
            self.chunks -= 1;
        }
    }

    /// Takes out all chunks of a path.
    pub(super) fn remove_path(&mut self, path: PathId) -> VecDeque<u64> {
        let line = self.paths.remove(&path).unwrap_or_default();
        self.chunks -= line.chunks.len() as u64;
        line.chunks
    }

    /// Keeps a message that was lost until the owner takes it.
    pub(super) fn on_lost(&mut self, message: LostMessage) {
        if self.lost.len() == MAX_LOST {
            self.lost.pop_front();
        }
        self.lost.push_back(message);
    }

    /// Takes out the message that was lost first.
    pub(super) fn pop_lost(&mut self) -> Option<LostMessage> {
        self.lost.pop_front()
    }

    /// Returns the paths that chunks wait for.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathId> {
        self.paths
            .iter()
            .filter(|(_, line)| !line.chunks.is_empty())
            .map(|(path, _)| *path)
    }
}

/// Lost messages that are kept: what a fast path has in flight when it falls silent.
const MAX_LOST: usize = 2048;
