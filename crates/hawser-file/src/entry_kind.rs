//! What is sent.

use super::wire::Kind;

/// What something is that was sent or received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory, without what is in it.
    Directory,
    /// A symbolic link.
    Link,
}

impl EntryKind {
    pub(super) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::File | Kind::Input => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Link(_) => Self::Link,
        }
    }
}
