use std::fmt;

/// Identifier of an association of an [`Endpoint`](crate::Endpoint); never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub(crate) u64);

impl fmt::Display for AssociationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "association {}", self.0)
    }
}
