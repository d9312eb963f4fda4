//! Options of `hawser-lab unshaped`.

use hawser_session::TransportChoice;
use hawser_types::ByteCount;

use crate::measure::Programs;
use crate::scenario::Direction;

/// Options of the measurement.
#[derive(Debug)]
pub(crate) struct Options {
    /// Bytes of each transfer.
    pub(crate) bytes: ByteCount,
    /// Repetitions of each.
    pub(crate) repeat: u32,
    /// Directions of the bytes.
    pub(crate) directions: Vec<Direction>,
    /// Only these, by the name that the table shows; all when empty.
    pub(crate) only: Vec<String>,
    /// The Hawser binary, when it is to be measured.
    pub(crate) hawser: Option<Programs>,
    /// Transport of programs that embed the library.
    pub(crate) transport: TransportChoice,
}

pub(super) const LINKS: usize = 2;
