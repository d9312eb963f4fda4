use super::Fault;
use crate::content::{BlockGrid, BlockHash};

/// The end of a round: whether the file stayed the same, and its blocks' hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trailer {
    /// The file did not change while it was read.
    Unchanged(Vec<BlockHash>),
    /// The file changed: the sent bytes belong to no single state of it.
    Changed,
}

impl Trailer {
    /// Length of the trailer of a file divided by `grid`: known to both ends before it is sent.
    pub(crate) fn length(grid: BlockGrid) -> usize {
        1 + 32 * grid.count()
    }

    pub(crate) fn encode(&self, grid: BlockGrid) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::length(grid));
        match self {
            Self::Unchanged(blocks) => {
                bytes.push(TRAILER_UNCHANGED);
                bytes.extend(blocks.iter().flatten());
            }
            Self::Changed => bytes.push(TRAILER_CHANGED),
        }
        bytes.resize(Self::length(grid), 0);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        match bytes {
            [TRAILER_UNCHANGED, hashes @ ..] if hashes.len().is_multiple_of(32) => {
                let (blocks, _) = hashes.as_chunks::<32>();
                Ok(Self::Unchanged(blocks.to_vec()))
            }
            [TRAILER_CHANGED, ..] => Ok(Self::Changed),
            _ => Err(Fault::Trailer),
        }
    }
}

const TRAILER_UNCHANGED: u8 = 0;
const TRAILER_CHANGED: u8 = 1;
