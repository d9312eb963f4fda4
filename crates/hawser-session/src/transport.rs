/// What takes the records of a channel.
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
