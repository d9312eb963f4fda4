//! Directories, their contents, and senders that try to leave the receiver's directory.

use std::collections::VecDeque;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use tokio::io::sink;

use super::hostile::Scripted;
use super::*;
use crate::content::BlockGrid;
use crate::link_target::LinkTarget;
use crate::wire::{FileTime, Kind, Offer, Refusal, Trailer};
use crate::{EntryKind, EntryPath, ExistingFile, Fault, LinkError, Tree, send_entry};

impl Place {
    /// The source directory as a tree named `tree`.
    fn tree(&self) -> Tree {
        Tree::read(self.source.path(), entry_path("tree")).expect("readable")
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.source.path().join(name);
        fs::create_dir_all(&path).expect("the test can make a directory");
        path
    }
}

fn entry_path(path: &str) -> EntryPath {
    EntryPath::new(path).expect("a good path")
}

/// Sends every entry over a stream of its own; at the end all directories again.
async fn send_tree(tree: &Tree, receiver: &Receiver) -> Vec<Outcome> {
    let directories = tree.entries.iter();
    let directories = directories.filter(|it| it.kind == EntryKind::Directory);
    let mut outcomes = Vec::new();
    for entry in tree.entries.iter().chain(directories) {
        let Link {
            sender,
            reader,
            writer,
        } = Link::new(LinkOptions::default());
        outcomes.push(tokio::join!(
            send_entry(sender, entry, &NoProgress),
            receiver.receive(reader, writer, &NoProgress),
        ));
    }
    outcomes
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::symlink_metadata(path).expect("there");
    metadata.permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the test owns it");
}

#[tokio::test]
async fn a_tree_arrives_with_modes_times_links_and_empty_directories() {
    let place = Place::new();
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for folder in ["private", "empty", "open/deep"] {
        place.folder(folder);
    }
    let secret = place.file("private/secret", b"secret");
    let program = place.file("open/program", &content(MIB + 5));
    symlink("../open/program", place.source.path().join("private/link")).expect("linkable");
    set_mode(&secret, 0o600);
    // The bits that change a program's rights are not transferred.
    set_mode(&program, 0o6755);
    for (folder, mode) in [("private", 0o700), ("empty", 0o555), ("open", 0o3750)] {
        set_mode(&place.source.path().join(folder), mode);
    }
    for folder in ["open", "private", "empty"] {
        let folder = fs::File::open(place.source.path().join(folder)).expect("there");
        folder.set_modified(past).expect("the test owns it");
    }
    let receiver = place.receiver();
    for outcome in send_tree(&place.tree(), &receiver).await {
        both(outcome);
    }
    let at = |name: &str| place.received("tree").join(name);
    assert_eq!(
        fs::read(at("open/program")).expect("there"),
        content(MIB + 5)
    );
    assert_eq!(
        fs::read(at("private/link")).expect("there"),
        content(MIB + 5)
    );
    let target = fs::read_link(at("private/link")).expect("a link");
    assert_eq!(target, Path::new("../open/program"));
    assert!(at("open/deep").is_dir());
    let umask = 0o777 & !place.probe(0o777);
    for (name, expected) in [
        ("private", 0o700),
        ("private/secret", 0o600),
        ("open", 0o750 & !umask | 0o700),
        ("open/program", 0o755 & !umask),
        // The owner can still add entries.
        ("empty", 0o555 & !umask | 0o700),
    ] {
        assert_eq!(mode(&at(name)), expected, "{name}");
    }
    for folder in ["open", "private", "empty"] {
        let modified = fs::metadata(at(folder)).and_then(|it| it.modified());
        assert_eq!(modified.expect("there"), past, "{folder}");
    }
    assert_eq!(names_in(&at("open")), ["deep", "program"]);
    assert_eq!(names_in(&at("private")), ["link", "secret"]);
}

impl Place {
    /// Returns these permission bits minus the umask, as a new file has them.
    fn probe(&self, bits: u32) -> u32 {
        use std::os::unix::fs::OpenOptionsExt;

        let folder = tempfile::tempdir().expect("the test can make a directory");
        let path = folder.path().join("probe");
        let options = fs::File::options()
            .write(true)
            .create(true)
            .mode(bits)
            .clone();
        options.open(&path).expect("writable");
        mode(&path)
    }
}

#[tokio::test]
async fn the_same_tree_again_costs_no_data_and_what_is_new_arrives() {
    let place = Place::new();
    place.folder("sub");
    place.file("sub/one", b"one");
    place.file("two", b"two");
    let receiver = place.receiver();
    for outcome in send_tree(&place.tree(), &receiver).await {
        both(outcome);
    }
    place.file("sub/three", b"three");
    let before = mode(&place.received("tree/sub"));
    // Changes by the receiver's user stay; the new receiver remembers no directory.
    set_mode(&place.received("tree"), 0o711);
    let receiver = place.receiver();
    let mut transferred = 0;
    for outcome in send_tree(&place.tree(), &receiver).await {
        let (sent, received) = both(outcome);
        transferred += sent.transferred.as_usize();
        let is_new = received.path.ends_with("three");
        assert_eq!(sent.already_there, !is_new, "{received:?}");
    }
    assert_eq!(transferred, 5);
    assert_eq!(mode(&place.received("tree")), 0o711);
    assert_eq!(mode(&place.received("tree/sub")), before);
    assert_eq!(
        fs::read(place.received("tree/sub/three")).expect("there"),
        b"three"
    );
}

#[tokio::test]
async fn a_file_that_differs_stays_and_the_rest_of_the_tree_arrives() {
    let place = Place::new();
    place.file("one", b"one");
    place.file("two", b"two");
    symlink("one", place.source.path().join("link")).expect("linkable");
    fs::create_dir(place.received("tree")).expect("writable");
    fs::write(place.received("tree/one"), "mine").expect("writable");
    symlink("elsewhere", place.received("tree/link")).expect("linkable");
    let outcomes = send_tree(&place.tree(), &place.receiver()).await;
    let refused = |outcome: &Outcome| {
        matches!(
            outcome,
            (
                Err(SendError::Refused {
                    refusal: Refusal::Exists,
                    ..
                }),
                Err(ReceiveError::Exists { .. })
            )
        )
    };
    assert_eq!(outcomes.iter().filter(|it| refused(it)).count(), 2);
    let kept = |name: &str| fs::read(place.received("tree").join(name)).expect("there");
    assert_eq!((kept("one"), kept("two")), (b"mine".into(), b"two".into()));

    let replacing = place.receiver_with(ReceiveOptions {
        existing: ExistingFile::Replace,
        ..options()
    });
    for outcome in send_tree(&place.tree(), &replacing).await {
        both(outcome);
    }
    let target = fs::read_link(place.received("tree/link")).expect("a link");
    assert_eq!((kept("one"), target), (b"one".into(), "one".into()));
    assert_eq!(
        names_in(&place.received("tree")),
        ["link", "one", "two"],
        "nothing else is left behind"
    );
}

fn offer(path: &str, kind: Kind) -> Offer {
    Offer {
        path: entry_path(path),
        kind,
        size: ByteCount::ZERO,
        modified: FileTime {
            seconds: 1,
            nanoseconds: 0,
        },
        mode: 0o777,
        guard: [0; 32],
    }
}

async fn receive_offer(receiver: &Receiver, offer: Vec<u8>) -> Result<Received, ReceiveError> {
    let script = Scripted(VecDeque::from([(0, offer.into())]));
    receiver.receive(script, sink(), &NoProgress).await
}

#[tokio::test]
async fn a_private_directory_is_not_opened_by_a_later_offer() {
    let place = Place::new();
    let receiver = place.receiver();
    // Its contents are offered first, which makes the directory.
    for (path, bits) in [("tree/sub", 0o755), ("tree", 0o700), ("tree", 0o777)] {
        let offer = Offer {
            mode: bits,
            ..offer(path, Kind::Directory)
        };
        let made = receive_offer(&receiver, offer.encode()).await;
        assert_eq!(made.expect("made").kind, EntryKind::Directory);
        assert_eq!(mode(&place.received("tree")), 0o700);
    }
}

#[tokio::test]
async fn a_directory_is_replaced_by_nothing_and_nothing_is_received_for_it() {
    let place = Place::new();
    let replacing = place.receiver_with(ReceiveOptions {
        existing: ExistingFile::Replace,
        ..options()
    });
    fs::create_dir_all(place.received("tree/mine/deep")).expect("writable");
    let target = LinkTarget::new(&entry_path("tree/mine"), b"file").expect("inside");
    for kind in [Kind::File, Kind::Input, Kind::Link(target)] {
        // No byte behind the offer is requested: the script has none.
        let result = receive_offer(&replacing, offer("tree/mine", kind).encode()).await;
        assert!(
            matches!(result, Err(ReceiveError::IsADirectory { .. })),
            "{result:?}"
        );
        assert_eq!(names_in(&place.received("tree")), ["mine"]);
    }
    assert_eq!(names_in(&place.received("tree/mine")), ["deep"]);
}

#[tokio::test]
async fn its_owner_can_read_a_file_that_its_sender_closes_to_all() {
    let place = Place::new();
    let offer = Offer {
        mode: 0o000,
        ..offer("tree/closed", Kind::File)
    };
    let trailer = Trailer::Unchanged(vec![*blake3::hash(b"").as_bytes()]);
    let (offer, trailer) = (offer.encode(), trailer.encode(BlockGrid::for_size(0)));
    let at = offer.len() as u64;
    let script = Scripted(VecDeque::from([(0, offer.into()), (at, trailer.into())]));
    let received = place.receiver().receive(script, sink(), &NoProgress).await;
    assert!(!received.expect("received").already_there);
    assert_eq!(mode(&place.received("tree/closed")), 0o400);
}

#[tokio::test]
async fn nothing_is_written_through_a_symbolic_link() {
    let place = Place::new();
    let outside = place.folder("outside");
    fs::write(outside.join("data"), "mine").expect("writable");
    symlink(&outside, place.received("planted")).expect("linkable");
    fs::write(place.received("file"), "mine").expect("writable");
    let mode_before = mode(&outside);
    let receiver = place.receiver();
    for path in ["planted/data", "planted/new/data", "planted", "file/data"] {
        for kind in [Kind::File, Kind::Input, Kind::Directory] {
            if path == "planted" && kind != Kind::Directory {
                continue;
            }
            let result = receive_offer(&receiver, offer(path, kind).encode()).await;
            assert!(
                matches!(result, Err(ReceiveError::NotADirectory { .. })),
                "{path}: {result:?}"
            );
        }
    }
    // A link that the sender made itself is not followed, either.
    let target = LinkTarget::new(&entry_path("tree/link"), b"deep").expect("inside");
    let link = offer("tree/link", Kind::Link(target));
    receive_offer(&receiver, link.encode()).await.expect("made");
    let through = offer("tree/link/data", Kind::Directory).encode();
    assert!(matches!(
        receive_offer(&receiver, through).await,
        Err(ReceiveError::NotADirectory { .. })
    ));
    assert_eq!(names_in(&outside), ["data"]);
    assert_eq!(fs::read(outside.join("data")).expect("there"), b"mine");
    assert_eq!(mode(&outside), mode_before);
    assert_eq!(names_in(&place.received("tree")), ["link"]);
}

#[tokio::test]
async fn paths_and_links_from_the_network_cannot_leave_the_directory() {
    let place = Place::new();
    let receiver = place.receiver();
    let forged = |path: &str, kind: u8, target: &str| {
        // Bypasses the sender's own checks: the bytes of an offer with these fields.
        let mut bytes = offer("t/x", Kind::Directory).encode();
        bytes.truncate(64);
        for (text, kind) in [(path, Some(kind)), (target, None)] {
            bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
            bytes.extend(kind);
        }
        let length = (bytes.len() - 8) as u16;
        bytes[6..8].copy_from_slice(&length.to_be_bytes());
        bytes
    };
    for path in [
        "../up",
        "a/../../up",
        "/etc/up",
        "a//up",
        "a/",
        "./up",
        "a/..",
        "",
        ".",
        "a/b\0c",
        ".a.hawser-part/b",
        &"a/".repeat(64),
        &"long/".repeat(700),
    ] {
        for kind in 0..4 {
            let result = receive_offer(&receiver, forged(path, kind, "b")).await;
            assert!(
                matches!(result, Err(ReceiveError::Misbehaved(Fault::Name(_)))),
                "{path:?}: {result:?}"
            );
        }
    }
    for (path, target) in [
        ("link", "file"),
        ("t/link", "/etc"),
        ("t/link", "../file"),
        ("t/a/link", "../../file"),
    ] {
        let result = receive_offer(&receiver, forged(path, 2, target)).await;
        let outside = Fault::Link(LinkError::Outside);
        assert!(
            matches!(result, Err(ReceiveError::Misbehaved(fault)) if fault == outside),
            "{path} -> {target}: {result:?}"
        );
    }
    assert!(place.names().is_empty());
}

#[tokio::test]
async fn a_receiver_that_refuses_links_and_directories_is_heard() {
    let place = Place::new();
    place.folder("sub");
    fs::write(place.received("tree"), "a file").expect("writable");
    for outcome in send_tree(&place.tree(), &place.receiver()).await {
        assert!(matches!(
            outcome,
            (
                Err(SendError::Refused {
                    refusal: Refusal::Exists,
                    ..
                }),
                Err(ReceiveError::NotADirectory { .. })
            )
        ));
    }
}
