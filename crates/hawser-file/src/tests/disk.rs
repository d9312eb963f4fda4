//! Full and read-only disks, in a mount namespace of a process of their own.

use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use super::*;
use crate::{EntryPath, Refusal, StoreError, Tree, send_entry, send_input};

const ROOM: &str = "HAWSER_TEST_ROOM";

/// Runs this same test again in a process that `script` prepares. Inside of it, returns the
/// prepared directory; otherwise `None`.
fn in_other_process(test: &str, needs_mount: bool, script: &str) -> Option<PathBuf> {
    if let Some(room) = std::env::var_os(ROOM) {
        return Some(room.into());
    }
    let namespace = ["--user", "--map-root-user", "--mount"];
    if needs_mount {
        let test = format!("hawser-file::{test}");
        if hawser_skip::namespace::is_forbidden(&test) {
            return None;
        }
        let probe = Command::new("unshare").args(namespace).arg("true").status();
        if !probe.is_ok_and(|status| status.success()) {
            hawser_skip::skip(&test, "this machine forbids mount namespaces");
            return None;
        }
    }
    let room = tempfile::tempdir().expect("the test can make a directory");
    let mut command = if needs_mount {
        let mut command = Command::new("unshare");
        command.args(namespace).arg("sh");
        command
    } else {
        Command::new("sh")
    };
    let executable = std::env::current_exe().expect("known on Linux");
    let status = command
        .arg("-c")
        .arg(format!(
            "{script} && exec \"$0\" --exact tests::disk::{test}"
        ))
        .arg(executable)
        .env(ROOM, room.path())
        .status()
        .expect("the shell starts");
    assert!(status.success(), "the test failed in its own process");
    None
}

#[test]
fn a_file_that_does_not_fit_is_refused_before_it_is_begun() {
    let Some(room) = in_other_process(
        "a_file_that_does_not_fit_is_refused_before_it_is_begun",
        true,
        "mount -t tmpfs -o size=4m none \"$HAWSER_TEST_ROOM\"",
    ) else {
        return;
    };
    on_runtime(async {
        let place = Place::new();
        let path = place.file("data", &content(5 * MIB));
        let receiver = Receiver::new(&room, options()).expect("the directory is there");
        let (sent, received) = transfer(&path, &receiver, LinkOptions::default()).await;
        let Err(ReceiveError::Store(StoreError::DiskFull {
            needed, available, ..
        })) = received
        else {
            panic!("the disk has no room: {received:?}");
        };
        assert_eq!(needed, ByteCount::from(5 * MIB));
        assert!(available <= ByteCount::from(4 * MIB));
        assert!(matches!(
            sent,
            Err(SendError::Refused { refusal: Refusal::DiskFull, detail })
                if detail.contains("full")
        ));
        assert!(names_in(&room).is_empty());
        // The reserve counts as used.
        let path = place.file("small", &content(2 * MIB));
        let careful = ReceiveOptions {
            keep_free: ByteCount::from(3 * MIB),
            ..options()
        };
        let receiver = Receiver::new(&room, careful).expect("the directory is there");
        let (_, received) = transfer(&path, &receiver, LinkOptions::default()).await;
        assert!(matches!(
            received,
            Err(ReceiveError::Store(StoreError::DiskFull { .. }))
        ));
        assert!(names_in(&room).is_empty());
    });
}

#[test]
fn a_disk_that_fills_up_under_way_keeps_the_rest_for_later() {
    let Some(room) = in_other_process(
        "a_disk_that_fills_up_under_way_keeps_the_rest_for_later",
        true,
        "mount -t tmpfs -o size=8m none \"$HAWSER_TEST_ROOM\"",
    ) else {
        return;
    };
    on_runtime(async {
        let place = Place::new();
        let bytes = content(6 * MIB);
        let path = place.file("data", &bytes);
        let thrifty = ReceiveOptions {
            preallocate: false,
            ..options()
        };
        let receiver = Receiver::new(&room, thrifty).expect("the directory is there");
        let filler = room.join("filler");
        let hog = filler.clone();
        let link = LinkOptions {
            hook: Some((
                2 * MIB as u64,
                Box::new(move || {
                    // Fills the disk: the error at the last byte is expected.
                    let _ = fs::write(hog, vec![0; 8 * MIB]);
                }),
            )),
            ..LinkOptions::default()
        };
        let (sent, received) = transfer(&path, &receiver, link).await;
        assert!(
            matches!(
                received,
                Err(ReceiveError::Store(StoreError::DiskFull { .. }))
            ),
            "{received:?}"
        );
        assert!(
            matches!(
                sent,
                Err(SendError::Refused {
                    refusal: Refusal::DiskFull,
                    ..
                })
            ),
            "{sent:?}"
        );
        assert!(!room.join("data").exists());
        fs::remove_file(&filler).expect("removable");
        both(transfer(&path, &receiver, LinkOptions::default()).await);
        assert_eq!(fs::read(room.join("data")).expect("there"), bytes);
    });
}

#[test]
fn the_reserve_is_kept_from_empty_files_directories_and_links_too() {
    let Some(room) = in_other_process(
        "the_reserve_is_kept_from_empty_files_directories_and_links_too",
        true,
        "mount -t tmpfs -o size=4m none \"$HAWSER_TEST_ROOM\"",
    ) else {
        return;
    };
    on_runtime(async {
        let place = Place::new();
        place.file("empty", b"");
        fs::create_dir(place.source.path().join("folder")).expect("writable");
        symlink("empty", place.source.path().join("link")).expect("linkable");
        let top = EntryPath::new("tree").expect("a good path");
        let tree = Tree::read(place.source.path(), top).expect("readable");
        let careful = ReceiveOptions {
            keep_free: ByteCount::from(8 * MIB),
            ..options()
        };
        // The folder exists, so each entry itself is refused.
        fs::create_dir(room.join("tree")).expect("writable");
        let receiver = Receiver::new(&room, careful).expect("the directory is there");
        for entry in tree
            .entries
            .iter()
            .filter(|it| it.source != place.source.path())
        {
            let Link {
                sender,
                reader,
                writer,
            } = Link::new(LinkOptions::default());
            let (sent, received) = tokio::join!(
                send_entry(sender, entry, &NoProgress),
                receiver.receive(reader, writer, &NoProgress),
            );
            assert!(
                matches!(
                    (&sent, &received),
                    (
                        Err(SendError::Refused {
                            refusal: Refusal::DiskFull,
                            ..
                        }),
                        Err(ReceiveError::Store(StoreError::DiskFull { .. })),
                    )
                ),
                "{sent:?} {received:?}"
            );
        }
        assert!(names_in(&room.join("tree")).is_empty());
    });
}

#[test]
fn inputs_take_their_room_as_they_grow() {
    let Some(room) = in_other_process(
        "inputs_take_their_room_as_they_grow",
        true,
        "mount -t tmpfs -o size=40m none \"$HAWSER_TEST_ROOM\"",
    ) else {
        return;
    };
    on_runtime(async {
        let receiver = Receiver::new(&room, options()).expect("the directory is there");
        let path = |name: &str| EntryPath::new(name).expect("a good path");
        let (first, second) = (
            Link::new(LinkOptions::default()),
            Link::new(LinkOptions::default()),
        );
        let (begun, begins) = std::sync::mpsc::channel::<Vec<u8>>();
        let one = Waiting(begins);
        let (name_of_one, name_of_two) = (path("one"), path("two"));
        let receive_one = receiver.receive(first.reader, first.writer, &NoProgress);
        let send_one = send_input(first.sender, || one, &name_of_one, &NoProgress);
        let both_of_one = async { tokio::join!(send_one, receive_one) };
        let two = async {
            begun.send(vec![7; 1000]).expect("the sender reads");
            while fs::metadata(room.join(".one.hawser-part")).map_or(0, |it| it.blocks()) == 0 {
                tokio::task::yield_now().await;
            }
            // The first input uses 16 of 40 MiB; 24 are left.
            let input = std::io::Cursor::new(content(25 * MIB));
            let outcome = tokio::join!(
                send_input(second.sender, || input, &name_of_two, &NoProgress),
                receiver.receive(second.reader, second.writer, &NoProgress),
            );
            drop(begun);
            outcome
        };
        let (one, two) = tokio::join!(both_of_one, two);
        assert!(
            matches!(two.1, Err(ReceiveError::Store(StoreError::DiskFull { .. }))),
            "{two:?}"
        );
        both(one);
        assert_eq!(names_in(&room), ["one"]);
        let blocks = fs::metadata(room.join("one")).expect("there").blocks();
        assert!(blocks * 512 < MIB as u64, "the rest was given back");
    });
}

/// Returns the bytes of a channel, to its end.
struct Waiting(std::sync::mpsc::Receiver<Vec<u8>>);

impl std::io::Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let piece = self.0.recv().unwrap_or_default();
        buffer[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

#[test]
fn a_directory_that_may_not_be_written_is_said_so() {
    let Some(room) = in_other_process(
        "a_directory_that_may_not_be_written_is_said_so",
        true,
        "mount -t tmpfs -o ro none \"$HAWSER_TEST_ROOM\"",
    ) else {
        return;
    };
    on_runtime(async {
        let place = Place::new();
        let path = place.file("data", b"x");
        let receiver = Receiver::new(&room, options()).expect("the directory is there");
        let (sent, received) = transfer(&path, &receiver, LinkOptions::default()).await;
        assert!(matches!(
            received,
            Err(ReceiveError::Store(StoreError::Permission { .. }))
        ));
        assert!(matches!(
            sent,
            Err(SendError::Refused {
                refusal: Refusal::Permission,
                ..
            })
        ));
    });
}

#[test]
fn a_resource_limit_on_file_size_is_said_so() {
    // Blocks of 512 bytes; the signal that comes with the error must not end the process.
    let Some(room) = in_other_process(
        "a_resource_limit_on_file_size_is_said_so",
        false,
        "trap '' XFSZ && ulimit -f 2048",
    ) else {
        return;
    };
    on_runtime(async {
        // A file above the limit that need not be written first: this very program.
        let large = std::env::current_exe().expect("known on Linux");
        let receiver = Receiver::new(&room, options()).expect("the directory is there");
        let (sent, received) = transfer(&large, &receiver, LinkOptions::default()).await;
        assert!(
            matches!(
                received,
                Err(ReceiveError::Store(StoreError::FileTooLarge { .. }))
            ),
            "{received:?}"
        );
        assert!(matches!(
            sent,
            Err(SendError::Refused {
                refusal: Refusal::TooLarge,
                ..
            })
        ));
        assert!(names_in(&room).is_empty());
    });
}

#[test]
fn a_target_that_is_no_directory_is_refused_from_the_start() {
    let place = Place::new();
    let file = place.file("file", b"");
    assert!(Receiver::new(&file, options()).is_err());
    assert!(Receiver::new(&place.source.path().join("absent"), options()).is_err());
}

fn on_runtime(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work);
}
