use hawser_types::Instant;
use smallvec::SmallVec;

use super::delivery::Snapshot;

/// A packet with DATA.
#[derive(Clone, Debug)]
pub(crate) struct SentPacket {
    pub(crate) number: u64,
    pub(crate) at: Instant,
    /// The chunks that it carried, by their numbers in the compound window.
    pub(crate) chunks: SmallVec<[u64; 2]>,
    /// Bytes neither acknowledged nor lost; the packet's header goes with the last chunk.
    pub(crate) bytes: u64,
    /// Number of chunks neither acknowledged nor lost.
    pub(super) open: usize,
    pub(super) snapshot: Snapshot,
}

impl SentPacket {
    /// Keeps those chunks of a lost packet for which `size` returns their size.
    pub(super) fn reopen(&mut self, mut size: impl FnMut(u64) -> Option<u64>) {
        let (before, mut bytes) = (self.open, 0);
        self.chunks.retain(|chunk| {
            let size = size(*chunk);
            bytes += size.unwrap_or(0);
            size.is_some()
        });
        self.open = self.chunks.len();
        if self.open < before {
            self.bytes = self.bytes.min(bytes);
        }
    }

    /// Removes the packet from flight and returns its contents.
    pub(super) fn take(&mut self) -> Self {
        Self {
            number: self.number,
            at: self.at,
            chunks: std::mem::take(&mut self.chunks),
            bytes: std::mem::take(&mut self.bytes),
            open: std::mem::take(&mut self.open),
            snapshot: self.snapshot,
        }
    }
}
