use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

fn top() -> EntryPath {
    EntryPath::new("top").expect("a good name")
}

fn shown(tree: &Tree) -> Vec<String> {
    let entries = tree.entries.iter();
    entries
        .map(|it| format!("{:?} {} {}", it.kind, it.path, it.size.as_u64()))
        .collect()
}

fn reasons(tree: &Tree) -> Vec<String> {
    let skipped = tree.skipped.iter();
    skipped
        .map(|it| {
            let name = it.source.file_name().unwrap_or_default();
            format!("{}: {}", name.display(), it.reason)
        })
        .collect()
}

#[test]
fn a_tree_has_its_directories_before_what_is_in_them() {
    let place = tempfile::tempdir().expect("the test can make a directory");
    let at = |name: &str| place.path().join(name);
    for folder in ["b/c", "empty"] {
        fs::create_dir_all(at(folder)).expect("writable");
    }
    for (file, size) in [("z", 3), ("a", 1), ("b/c/d", 2)] {
        fs::write(at(file), vec![0; size]).expect("writable");
    }
    symlink("../z", at("b/link")).expect("linkable");
    let tree = Tree::read(place.path(), top()).expect("readable");
    assert_eq!(
        shown(&tree),
        [
            "Directory top 0",
            "File top/a 1",
            "Directory top/b 0",
            "Directory top/b/c 0",
            "File top/b/c/d 2",
            "Link top/b/link 0",
            "Directory top/empty 0",
            "File top/z 3",
        ]
    );
    assert_eq!(tree.size(), ByteCount::new(6));
    assert!(tree.skipped.is_empty());
}

#[test]
fn what_cannot_be_sent_is_left_out_with_a_reason() {
    let place = tempfile::tempdir().expect("the test can make a directory");
    let at = |name: &str| place.path().join(name);
    symlink("/etc/passwd", at("absolute")).expect("linkable");
    symlink("../up", at("up")).expect("linkable");
    // A link to a directory is not entered, even one that makes a circle.
    symlink(".", at("circle")).expect("linkable");
    fs::write(at("line\nbreak"), "").expect("writable");
    let no_text = std::ffi::OsStr::from_bytes(b"\xff");
    fs::write(place.path().join(no_text), "").expect("writable");
    let _socket = UnixListener::bind(at("socket")).expect("bindable");
    let tree = Tree::read(place.path(), top()).expect("readable");
    assert_eq!(shown(&tree), ["Directory top 0", "Link top/circle 0"]);
    assert_eq!(
        reasons(&tree),
        [
            "absolute: the symbolic link points out of the tree",
            "line\nbreak: the file name has the control character U+000A in it",
            "socket: a socket is not sent",
            "up: the symbolic link points out of the tree",
            "\u{fffd}: the file name is not UTF-8",
        ]
    );
    let failures = tree.skipped.iter().filter(|it| it.reason.is_failure());
    assert_eq!(failures.count(), 2, "names that no receiver takes");
}

#[test]
fn a_link_stays_in_what_is_sent_whatever_folders_are_around_it() {
    let place = tempfile::tempdir().expect("the test can make a directory");
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("sub")).expect("writable");
    symlink("../beside", at("outside")).expect("linkable");
    symlink("../../beside", at("sub/outside")).expect("linkable");
    symlink("../inside", at("sub/inside")).expect("linkable");
    let top = EntryPath::new("x/y").expect("a good path");
    let tree = Tree::read(place.path(), top).expect("readable");
    assert_eq!(
        shown(&tree),
        [
            "Directory x/y 0",
            "Directory x/y/sub 0",
            "Link x/y/sub/inside 0"
        ]
    );
    let reason = "outside: the symbolic link points out of the tree";
    assert_eq!(reasons(&tree), [reason, reason]);
    // A link that changes after that is not sent, either.
    let link = tree.entries.last().expect("the link");
    fs::remove_file(&link.source).expect("removable");
    symlink("../../beside", &link.source).expect("linkable");
    let offer = link.bare_offer();
    assert!(matches!(offer, Err(SendError::Link { .. })), "{offer:?}");
}

#[test]
fn a_tree_without_bound_is_not_read_to_its_end() {
    let place = tempfile::tempdir().expect("the test can make a directory");
    for name in ["a", "b", "c"] {
        fs::create_dir(place.path().join(name)).expect("writable");
    }
    assert!(Tree::read_at_most(place.path(), top(), 3).is_ok());
    assert!(matches!(
        Tree::read_at_most(place.path(), top(), 2),
        Err(TreeError::TooMany { limit: 2, .. })
    ));
    let deep = place.path().join("x/".repeat(70));
    fs::create_dir_all(deep).expect("writable");
    let tree = Tree::read(place.path(), top()).expect("readable");
    assert_eq!(
        reasons(&tree),
        ["x: the path has 65 components, more than 64"]
    );
}

#[test]
fn a_directory_that_is_not_there_is_no_tree() {
    assert!(matches!(
        Tree::read(Path::new("/nowhere"), top()),
        Err(TreeError::Read { .. })
    ));
}
