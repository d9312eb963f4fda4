//! Paths below the receiver's directory.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::name::{FileName, MAX_DEPTH, MAX_PATH_BYTES, NameError};

/// A path below the receiver's directory: folders, if any, and a name.
///
/// Written with `/` between the components. Each component is a [`FileName`], so no path leads out
/// of the directory, as long as the code that opens it follows no symbolic link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryPath {
    folders: Vec<FileName>,
    name: FileName,
}

impl EntryPath {
    /// Checks a path.
    pub fn new(path: &str) -> Result<Self, NameError> {
        Self::from_bytes(path.as_bytes())
    }

    /// Returns the last component of a path of this machine, as a name at the receiver.
    pub fn name_of(path: &Path) -> Result<Self, NameError> {
        let name = path.file_name().ok_or(NameError::Directory)?;
        Ok(FileName::from_bytes(name.as_bytes())?.into())
    }

    /// Checks a path given as bytes.
    pub(crate) fn from_bytes(path: &[u8]) -> Result<Self, NameError> {
        // The length first: an error must not depend on the contents of a huge path.
        if path.len() > MAX_PATH_BYTES {
            return Err(NameError::PathTooLong { bytes: path.len() });
        }
        if path.first() == Some(&b'/') {
            return Err(NameError::Absolute);
        }
        let depth = path.split(|&byte| byte == b'/').count();
        if depth > MAX_DEPTH {
            return Err(NameError::TooDeep { depth });
        }
        let components = path.split(|&byte| byte == b'/').map(FileName::from_bytes);
        let mut folders = components.collect::<Result<Vec<_>, _>>()?;
        let name = folders.pop().ok_or(NameError::Empty)?;
        Ok(Self { folders, name })
    }

    /// Returns the folders of the path, the outermost first.
    pub fn folders(&self) -> &[FileName] {
        &self.folders
    }

    /// The last component.
    pub fn name(&self) -> &FileName {
        &self.name
    }
}

impl From<FileName> for EntryPath {
    fn from(name: FileName) -> Self {
        let folders = Vec::new();
        Self { folders, name }
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for folder in &self.folders {
            write!(f, "{folder}/")?;
        }
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_that_leave_the_directory_or_the_bounds_are_refused() {
        let deep = |depth: usize| vec!["a"; depth].join("/");
        let refused = [
            ("", NameError::Empty),
            ("/etc/passwd", NameError::Absolute),
            ("a//b", NameError::Empty),
            ("a/", NameError::Empty),
            ("../a", NameError::Directory),
            ("a/../b", NameError::Directory),
            ("a/./b", NameError::Directory),
            ("a/b/..", NameError::Directory),
            ("a\0/b", NameError::Control { code: 0 }),
            (".x.hawser-part/b", NameError::Reserved),
            (&deep(65), NameError::TooDeep { depth: 65 }),
            (&"x/".repeat(1537), NameError::PathTooLong { bytes: 3074 }),
            (
                &format!("{}/b", "x".repeat(256)),
                NameError::TooLong { bytes: 256 },
            ),
        ];
        for (path, error) in refused {
            assert_eq!(EntryPath::new(path), Err(error), "{path:?}");
        }
        for path in ["a", "a/b", ".a/...", &deep(64)] {
            let parsed = EntryPath::new(path).map(|it| it.to_string());
            assert_eq!(parsed, Ok(path.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn an_accepted_path_consists_of_plain_names(
            bytes in prop::collection::vec(
                prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()],
                0..300,
            ),
        ) {
            if let Ok(path) = EntryPath::from_bytes(&bytes) {
                let shown = path.to_string();
                prop_assert_eq!(shown.as_bytes(), &bytes);
                let components: Vec<_> = Path::new(&shown).components().collect();
                prop_assert_eq!(components.len(), path.folders().len() + 1);
                prop_assert!(components.iter().all(|it| matches!(it, Component::Normal(_))));
            }
        }
    }
}
