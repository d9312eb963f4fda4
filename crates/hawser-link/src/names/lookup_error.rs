use hawser_wire::dns::DnsError;

/// A name has no addresses, or they could not be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// There is no such name, or it has no addresses.
    #[error("the name was not found")]
    NotFound,
    /// No server has answered.
    #[error("no name server has answered")]
    Silent,
    /// There is no server to ask.
    #[error("no name server is known")]
    NoServer,
    /// The servers have answered with a failure.
    #[error("the name servers failed to resolve the name")]
    Failed,
    /// The question is malformed.
    #[error("malformed question: {0}")]
    Malformed(DnsError),
}
