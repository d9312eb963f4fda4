use hawser_types::StreamId;

/// Side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Began the session; opens streams with even numbers and makes the connections.
    Client,
    /// Accepted it; opens streams with odd numbers and grants channels.
    Gateway,
}

impl Side {
    /// True if this side opens streams with this number.
    pub(crate) fn opens(self, id: StreamId) -> bool {
        id.is_client_opened() == (self == Self::Client)
    }

    /// Returns the number of the first stream that this side opens.
    pub(crate) const fn first_stream(self) -> StreamId {
        match self {
            // Stream 0 carries the commands.
            Self::Client => StreamId::new(2),
            Self::Gateway => StreamId::new(1),
        }
    }

    /// Returns the other side.
    pub(crate) const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Gateway,
            Self::Gateway => Self::Client,
        }
    }
}
