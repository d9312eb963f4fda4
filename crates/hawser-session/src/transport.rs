/// Transport of the records of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection over one link.
    #[default]
    Tcp,
    /// An association over all links.
    Association,
}

/// Reason for the transport that is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportReason {
    /// The user asked for it.
    Wished,
    /// Nothing else was tried yet.
    #[default]
    First,
    /// It is on trial, to be compared with the other one.
    Tried,
    /// It delivered more than the other one, or not so much less that a change would pay.
    Faster,
    /// The other one fell silent, or is gone.
    Silent,
}

impl Transport {
    /// Its place in pairs of which TCP comes first.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Tcp => 0,
            Self::Association => 1,
        }
    }

    /// The one that it is not.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Tcp => Self::Association,
            Self::Association => Self::Tcp,
        }
    }

    /// Returns the text for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Association => "an association",
        }
    }
}

impl TransportReason {
    /// Returns the text for people: goes on after "since".
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Wished => "it was asked for",
            Self::First => "nothing else was tried yet",
            Self::Tried => "it is on trial",
            Self::Faster => "it delivered more, or not so much less that a change would pay",
            Self::Silent => "the other one fell silent, or is gone",
        }
    }
}
