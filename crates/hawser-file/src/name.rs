//! File names from the network: one component, which cannot lead out of the directory.

use std::fmt;

use thiserror::Error;

/// A name that may be created in the target directory.
///
/// One path component in UTF-8, 1 to 255 bytes, no `/`, no control character, neither `.` nor `..`,
/// and none of the names that Hawser itself uses for its unfinished files.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FileName(String);

impl FileName {
    /// Checks a name.
    pub(crate) fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong { bytes: name.len() });
        }
        if name == "." || name == ".." {
            return Err(NameError::Directory);
        }
        if name.contains('/') {
            return Err(NameError::Separator);
        }
        if let Some(found) = name.chars().find(|found| found.is_control()) {
            return Err(NameError::Control {
                code: u32::from(found),
            });
        }
        let ours = [PART_SUFFIX, JOURNAL_SUFFIX, JOURNAL_DRAFT_SUFFIX];
        if name.starts_with('.') && ours.iter().any(|suffix| name.ends_with(suffix)) {
            return Err(NameError::Reserved);
        }
        Ok(Self(name.to_owned()))
    }

    /// Checks a name given as bytes.
    pub(crate) fn from_bytes(name: &[u8]) -> Result<Self, NameError> {
        // The length first: an error must not depend on the contents of a huge name.
        if name.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong { bytes: name.len() });
        }
        Self::new(std::str::from_utf8(name).map_err(|_| NameError::NotUtf8)?)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the file that holds the bytes until they are complete.
    pub(super) fn part(&self) -> String {
        format!(".{}{PART_SUFFIX}", self.stem())
    }

    /// Name of the file that records which bytes of the part are stored.
    pub(super) fn journal(&self) -> String {
        format!(".{}{JOURNAL_SUFFIX}", self.stem())
    }

    /// Name under which the next journal is written before it replaces the old one.
    pub(super) fn journal_draft(&self) -> String {
        format!(".{}{JOURNAL_DRAFT_SUFFIX}", self.stem())
    }

    /// The name; if the suffixes would not fit, it is shortened and made distinct by a hash.
    fn stem(&self) -> String {
        if self.0.len() <= MAX_STEM_BYTES {
            return self.0.clone();
        }
        let mut cut = MAX_STEM_BYTES - 1 - STEM_HASH_DIGITS;
        while !self.0.is_char_boundary(cut) {
            cut -= 1;
        }
        let digits = blake3::hash(self.0.as_bytes()).to_hex();
        format!("{}~{}", &self.0[..cut], &digits[..STEM_HASH_DIGITS])
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a name is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum NameError {
    /// No byte at all.
    #[error("the file name is empty")]
    Empty,
    /// Longer than file systems allow.
    #[error("the file name has {bytes} bytes, more than {MAX_NAME_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// `.` or `..`.
    #[error("the file name means a directory")]
    Directory,
    /// A `/` in it.
    #[error("the file name has a / in it")]
    Separator,
    /// NUL, a line break, an escape, …
    #[error("the file name has the control character U+{code:04X} in it")]
    Control {
        /// Its code point.
        code: u32,
    },
    /// Not UTF-8.
    #[error("the file name is not UTF-8")]
    NotUtf8,
    /// A path that begins with `/`.
    #[error("the path begins with /")]
    Absolute,
    /// More bytes than a path may have.
    #[error("the path has {bytes} bytes, more than {MAX_PATH_BYTES}")]
    PathTooLong {
        /// Its length.
        bytes: usize,
    },
    /// More nested folders than a path may have.
    #[error("the path has {depth} components, more than {MAX_DEPTH}")]
    TooDeep {
        /// Its number of components.
        depth: usize,
    },
    /// A name that Hawser gives to unfinished files.
    #[error("the file name is one that hawser uses for unfinished files")]
    Reserved,
}

/// Limit of Linux file systems for one component.
pub(crate) const MAX_NAME_BYTES: usize = 255;
/// The longest path of several names: with the receiver's directory in front of it, Linux allows
/// little more.
pub(crate) const MAX_PATH_BYTES: usize = 3072;
/// The maximum number of names in a path.
pub(crate) const MAX_DEPTH: usize = 64;

const PART_SUFFIX: &str = ".hawser-part";
const JOURNAL_SUFFIX: &str = ".hawser-journal";
const JOURNAL_DRAFT_SUFFIX: &str = ".hawser-journal-new";
/// Leaves room for the dot and the longest suffix.
const MAX_STEM_BYTES: usize = MAX_NAME_BYTES - 1 - JOURNAL_DRAFT_SUFFIX.len();
const STEM_HASH_DIGITS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let refused = [
            ("", NameError::Empty),
            (".", NameError::Directory),
            ("..", NameError::Directory),
            ("../passwd", NameError::Separator),
            ("/etc/passwd", NameError::Separator),
            ("a/b", NameError::Separator),
            ("a\0b", NameError::Control { code: 0 }),
            ("a\nb", NameError::Control { code: 10 }),
            ("\u{1b}[2J", NameError::Control { code: 27 }),
            ("a\u{9b}b", NameError::Control { code: 0x9b }),
            (".film.hawser-part", NameError::Reserved),
            (".film.hawser-journal", NameError::Reserved),
        ];
        for (name, error) in refused {
            assert_eq!(FileName::new(name), Err(error), "{name:?}");
        }
        assert_eq!(FileName::from_bytes(b"a\xff"), Err(NameError::NotUtf8));
        assert_eq!(
            FileName::new(&"x".repeat(256)),
            Err(NameError::TooLong { bytes: 256 })
        );
        for name in ["film.mkv", "...", ".hidden", "-rf", "naïve café", "a\\b"] {
            assert_eq!(FileName::new(name).map(|n| n.0), Ok(name.to_owned()));
        }
    }

    #[test]
    fn long_names_keep_distinct_files_beside_them() {
        let one = FileName::new(&format!("{}1", "ü".repeat(127))).expect("255 bytes are allowed");
        let two = FileName::new(&format!("{}2", "ü".repeat(127))).expect("255 bytes are allowed");
        for name in [&one, &two] {
            assert!(name.part().len() <= MAX_NAME_BYTES);
            assert!(name.journal().len() <= MAX_NAME_BYTES);
            assert!(name.journal_draft().len() <= MAX_NAME_BYTES);
        }
        assert_ne!(one.part(), two.part());
    }

    proptest! {
        #[test]
        fn an_accepted_name_is_one_plain_component(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Ok(name) = FileName::from_bytes(&bytes) {
                let joined = std::path::Path::new("/target").join(name.as_str());
                prop_assert_eq!(joined.parent(), Some(std::path::Path::new("/target")));
                prop_assert_eq!(joined.file_name().and_then(|n| n.to_str()), Some(name.as_str()));
                prop_assert!(name.part().len() <= MAX_NAME_BYTES);
            }
        }
    }
}
