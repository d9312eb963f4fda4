//! Kinds of entries that are sent.

use super::wire::Kind;

/// The kind of an entry that was sent or received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory, without its contents.
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
