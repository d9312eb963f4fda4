//! The folder of one experiment's logs and state.

use std::path::{Path, PathBuf};

use crate::interrupt::TemporaryFolder;

/// The folder of one experiment's logs and state.
#[derive(Debug)]
pub(crate) enum RunFolder {
    Kept(PathBuf),
    Temporary(TemporaryFolder),
}

impl RunFolder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Temporary(folder) => folder.path(),
        }
    }
}
