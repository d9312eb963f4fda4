//! The directions to measure.

use crate::scenario::Direction;

/// Directions of the bytes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Directions {
    Put,
    Get,
    Both,
}

impl Directions {
    pub(crate) fn directions(self) -> Vec<Direction> {
        match self {
            Self::Put => vec![Direction::Put],
            Self::Get => vec![Direction::Get],
            Self::Both => vec![Direction::Put, Direction::Get],
        }
    }
}
