use hawser_types::StreamId;

/// Directions of streams that this side ended early and that the peer has not been told of.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    /// They ended before the peer's hello came, which says how to tell it.
    untold: Vec<EndedHalf>,
}

/// A direction of a stream that this side ended early, and its code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndedHalf {
    /// This side reads no more.
    Reading(StreamId, u32),
    /// This side writes no more.
    Sending(StreamId, u32),
}

impl Halves {
    /// Keeps a direction until the peer's hello comes.
    pub(crate) fn keep(&mut self, ended: EndedHalf) {
        self.untold.push(ended);
    }

    /// Takes out the directions that the peer is to be told of.
    pub(crate) fn take(&mut self) -> Vec<EndedHalf> {
        std::mem::take(&mut self.untold)
    }
}
