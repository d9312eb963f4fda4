//! Targets that a symbolic link of a tree may have.

use std::fmt;

use thiserror::Error;

use super::entry_path::EntryPath;

/// Target of a symbolic link: a relative path that stays within the tree that was sent.
///
/// `..` stands at the beginning only. The kernel resolves it from the folder that the link is in,
/// so its meaning cannot depend on other links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LinkTarget(String);

impl LinkTarget {
    /// Checks the target of a link at `path`, whose first component is the top of the tree, as far
    /// as a receiver can check it.
    pub(crate) fn new(path: &EntryPath, target: &[u8]) -> Result<Self, LinkError> {
        Self::within(0, path, target)
    }

    /// Checks the target of a link at `path`. The top of its tree is in `top_depth` folders.
    pub(crate) fn within(
        top_depth: usize,
        path: &EntryPath,
        target: &[u8],
    ) -> Result<Self, LinkError> {
        if target.len() > MAX_TARGET_BYTES {
            return Err(LinkError::TooLong {
                bytes: target.len(),
            });
        }
        let target = std::str::from_utf8(target).map_err(|_| LinkError::NotText)?;
        if target.is_empty() || target.contains(char::is_control) {
            return Err(LinkError::NotText);
        }
        if target.starts_with('/') {
            return Err(LinkError::Outside);
        }
        let is_step = |component: &&str| !matches!(*component, "" | ".");
        let mut steps = target.split('/').filter(is_step).peekable();
        let mut up = 0;
        while steps.next_if_eq(&"..").is_some() {
            up += 1;
        }
        // A link beside the top of the tree has no tree around it.
        let folders_to_leave = path.folders().len().checked_sub(top_depth + 1);
        if folders_to_leave.is_none_or(|most| up > most) {
            return Err(LinkError::Outside);
        }
        if steps.any(|step| step == "..") {
            Err(LinkError::Roundabout)
        } else {
            Ok(Self(target.to_owned()))
        }
    }

    /// The target.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a symbolic link is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// An absolute path, or more `..` than the link has folders around it.
    #[error("the symbolic link points out of the tree")]
    Outside,
    /// A `..` behind a name.
    #[error("the symbolic link points at a path with .. in the middle")]
    Roundabout,
    /// Longer than the protocol allows.
    #[error("the symbolic link's target has {bytes} bytes, more than {MAX_TARGET_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Empty, not UTF-8, or with control characters.
    #[error("the symbolic link's target is not plain text")]
    NotText,
}

/// The longest target.
pub(crate) const MAX_TARGET_BYTES: usize = 3072;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(path: &str, target: &str) -> Result<(), LinkError> {
        let path = EntryPath::new(path).expect("a good path");
        LinkTarget::new(&path, target.as_bytes()).map(drop)
    }

    #[test]
    fn a_link_may_point_at_whatever_its_tree_has() {
        for (path, target) in [
            ("tree/a", "b"),
            ("tree/a", "./b/c/"),
            ("tree/a", "."),
            ("tree/a/b", ".."),
            ("tree/a/b", "../c"),
            ("tree/a/b/c", "../../d"),
            ("tree/a", "..."),
        ] {
            assert_eq!(check(path, target), Ok(()), "{path} -> {target}");
        }
    }

    #[test]
    fn a_link_out_of_its_tree_is_refused() {
        for (path, target, error) in [
            ("a", "b", LinkError::Outside),
            ("tree/a", "/etc/passwd", LinkError::Outside),
            ("tree/a", "..", LinkError::Outside),
            ("tree/a", "./../b", LinkError::Outside),
            ("tree/a/b", "../..", LinkError::Outside),
            ("tree/a/b", "..//.././x", LinkError::Outside),
            ("tree/a/b", "c/../../..", LinkError::Roundabout),
            ("tree/a", "b/..", LinkError::Roundabout),
            ("tree/a", "", LinkError::NotText),
            ("tree/a", "b\n", LinkError::NotText),
        ] {
            assert_eq!(check(path, target), Err(error), "{path} -> {target}");
        }
        let path = EntryPath::new("tree/a").expect("a good path");
        assert_eq!(LinkTarget::new(&path, b"\xff"), Err(LinkError::NotText));
        let long = vec![b'x'; MAX_TARGET_BYTES + 1];
        let bytes = long.len();
        assert_eq!(
            LinkTarget::new(&path, &long),
            Err(LinkError::TooLong { bytes })
        );
    }

    proptest! {
        #[test]
        fn an_accepted_target_never_climbs_above_the_top(
            depth in 0..4usize,
            steps in prop::collection::vec(prop_oneof!["\\.\\.", "\\.", "", "[ab]"], 0..8),
        ) {
            let path = format!("{}link", "d/".repeat(depth));
            let target = steps.join("/");
            if check(&path, &target).is_ok() {
                let mut height = depth as i64;
                for step in &steps {
                    height += match step.as_str() { ".." => -1, "." | "" => 0, _ => 1 };
                    prop_assert!(height >= 1, "{} -> {}", path, target);
                }
                prop_assert!(!target.starts_with('/'));
            }
        }
    }
}
