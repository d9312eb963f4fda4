use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::link::Ordered;
use super::*;
use crate::{EntryPath, ExistingFile, Phase, Progress, Refusal, Update};

#[tokio::test]
async fn a_file_arrives_whole_whatever_the_order_of_its_chunks() {
    for (seed, length) in [(1, 1), (2, 4096), (3, MIB), (4, 3 * MIB + 17), (5, 9 * MIB)] {
        let place = Place::new();
        let bytes = content(length);
        let path = place.file("data", &bytes);
        let link = LinkOptions {
            seed,
            chunk: if length < MIB { 100 } else { 64 << 10 },
            repeated: 20,
            ..LinkOptions::default()
        };
        let (sent, received) = both(transfer(&path, &place.receiver(), link).await);
        assert_eq!(sent.hash, blake3::hash(&bytes));
        assert_eq!(sent.transferred, ByteCount::from(length));
        assert_eq!(received.transferred, ByteCount::from(length));
        assert_eq!(fs::read(place.received("data")).expect("readable"), bytes);
        assert_eq!(place.names(), ["data"], "nothing else is left behind");
    }
}

#[tokio::test]
async fn an_empty_file_arrives() {
    let place = Place::new();
    let path = place.file("empty", b"");
    let (sent, _) = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert_eq!(sent.hash, blake3::hash(b""));
    assert_eq!(place.names(), ["empty"]);
    let again = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert!(again.0.already_there);
}

#[tokio::test]
async fn a_plain_ordered_stream_will_do() {
    let place = Place::new();
    let bytes = content(2 * MIB + 5);
    let path = place.file("data", &bytes);
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let receiver = place.receiver();
    let options = SendOptions {
        name: EntryPath::new("other name").ok(),
    };
    both(tokio::join!(
        send_file(ours, &path, &options, &NoProgress),
        receiver.receive(Ordered::new(reader), writer, &NoProgress),
    ));
    assert_eq!(
        fs::read(place.received("other name")).expect("readable"),
        bytes
    );
}

#[tokio::test]
async fn time_and_permission_bits_travel_without_the_dangerous_ones() {
    let place = Place::new();
    let path = place.file("tool", b"#!/bin/sh\n");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 5_000_000);
    let file = fs::File::options().write(true).open(&path).expect("opens");
    file.set_modified(time).expect("settable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4750)).expect("settable");
    both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    let metadata = fs::metadata(place.received("tool")).expect("there");
    assert_eq!(metadata.permissions().mode() & 0o7000, 0, "no setuid");
    assert_eq!(metadata.permissions().mode() & 0o700, 0o700);
    assert_eq!(metadata.modified().expect("known"), time);
}

#[tokio::test]
async fn the_same_file_again_costs_no_data() {
    let place = Place::new();
    let path = place.file("data", &content(3 * MIB));
    let receiver = place.receiver();
    both(transfer(&path, &receiver, LinkOptions::default()).await);
    let (sent, received) = both(transfer(&path, &receiver, LinkOptions::default()).await);
    assert!(sent.already_there);
    assert_eq!(sent.transferred, ByteCount::ZERO);
    assert_eq!(received.transferred, ByteCount::ZERO);
    assert_eq!(place.names(), ["data"]);
}

#[tokio::test]
async fn a_different_file_of_that_name_is_never_overwritten() {
    let bytes = content(3 * MIB);
    let mut middle = bytes.clone();
    middle[3 * MIB / 2] ^= 1;
    for existing in [&b"short"[..], &content(3 * MIB + 1)[1..], &middle] {
        let place = Place::new();
        let path = place.file("data", &bytes);
        fs::write(place.received("data"), existing).expect("writable");
        let (sent, received) = transfer(&path, &place.receiver(), LinkOptions::default()).await;
        assert!(matches!(received, Err(ReceiveError::Exists { name }) if name == "data"));
        assert!(matches!(
            sent,
            Err(SendError::Refused { refusal: Refusal::Exists, detail }) if detail.contains("data")
        ));
        assert_eq!(fs::read(place.received("data")).expect("there"), existing);
        assert_eq!(place.names(), ["data"]);
    }
}

#[tokio::test]
async fn a_different_file_is_replaced_where_that_is_wanted() {
    let place = Place::new();
    let bytes = content(3 * MIB);
    let mut middle = bytes.clone();
    middle[3 * MIB / 2] ^= 1;
    let path = place.file("data", &bytes);
    fs::write(place.received("data"), &middle).expect("writable");
    let receiver = place.receiver_with(ReceiveOptions {
        existing: ExistingFile::Replace,
        ..options()
    });
    let (sent, _) = both(transfer(&path, &receiver, LinkOptions::default()).await);
    assert!(!sent.already_there);
    assert_eq!(fs::read(place.received("data")).expect("there"), bytes);
    assert_eq!(place.names(), ["data"]);
}

#[tokio::test]
async fn a_file_that_gets_the_name_meanwhile_is_not_overwritten() {
    let place = Place::new();
    let path = place.file("data", &content(2 * MIB));
    let target = place.received("data");
    let link = LinkOptions {
        hook: Some((
            MIB as u64,
            Box::new(move || fs::write(target, "quick").expect("writable")),
        )),
        ..LinkOptions::default()
    };
    let (sent, received) = transfer(&path, &place.receiver(), link).await;
    assert!(matches!(received, Err(ReceiveError::Exists { .. })));
    assert!(matches!(
        sent,
        Err(SendError::Refused {
            refusal: Refusal::Exists,
            ..
        })
    ));
    assert_eq!(fs::read(place.received("data")).expect("there"), b"quick");
    // With the other file gone, no data has to be sent again.
    fs::remove_file(place.received("data")).expect("removable");
    let (sent, _) = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert_eq!(sent.transferred, ByteCount::ZERO);
}

#[tokio::test]
async fn a_byte_damaged_on_the_way_has_its_block_sent_again() {
    let place = Place::new();
    let bytes = content(5 * MIB);
    let path = place.file("data", &bytes);
    let link = LinkOptions {
        damage: Some(2 * MIB as u64 + 12345),
        repeated: 0,
        ..LinkOptions::default()
    };
    let (sent, _) = both(transfer(&path, &place.receiver(), link).await);
    assert_eq!(sent.transferred, ByteCount::from(6 * MIB));
    assert_eq!(fs::read(place.received("data")).expect("there"), bytes);
}

#[tokio::test]
async fn a_file_that_changes_while_being_sent_is_noticed_at_both_ends() {
    // Content only, with a new time; truncated; grown.
    let changes: [fn(&Path); 3] = [
        |path| {
            let file = fs::File::options().write(true).open(path).expect("opens");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("settable");
        },
        |path| {
            let file = fs::File::options().write(true).open(path).expect("opens");
            file.set_len(100).expect("settable");
        },
        |path| {
            let file = fs::File::options().write(true).open(path).expect("opens");
            file.set_len(90 << 20).expect("settable");
        },
    ];
    for change in changes {
        // Once with much still to be read, once when the file was already read to its end.
        for length in [20 * MIB, 2 * MIB] {
            let place = Place::new();
            let path = place.file("data", &content(length));
            let victim = path.clone();
            let link = LinkOptions {
                hook: Some((MIB as u64, Box::new(move || change(&victim)))),
                ..LinkOptions::default()
            };
            let (sent, received) = transfer(&path, &place.receiver(), link).await;
            assert!(matches!(sent, Err(SendError::SourceChanged { .. })));
            assert!(matches!(
                received,
                Err(ReceiveError::SourceChanged | ReceiveError::CutShort)
            ));
            assert!(!place.received("data").exists());
            // The new state of the file arrives completely.
            both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
            assert_eq!(
                fs::read(place.received("data")).expect("there"),
                fs::read(&path).expect("there")
            );
        }
    }
}

#[tokio::test]
async fn only_regular_files_with_usable_names_are_sent() {
    let place = Place::new();
    let try_send = async |path: &Path| {
        let receiver = place.receiver();
        transfer(path, &receiver, LinkOptions::default()).await.0
    };
    assert!(matches!(
        try_send(place.source.path()).await,
        Err(SendError::NotAFile { .. })
    ));
    assert!(matches!(
        try_send(Path::new("/dev/null")).await,
        Err(SendError::NotAFile { .. })
    ));
    assert!(matches!(
        try_send(&place.source.path().join("absent")).await,
        Err(SendError::Open { .. })
    ));
    assert!(matches!(
        try_send(&place.file("a\nb", b"")).await,
        Err(SendError::Name { .. })
    ));
    assert!(place.names().is_empty());
}

/// Records all reports.
#[derive(Default)]
struct Log {
    begun: Mutex<Vec<(String, Option<ByteCount>)>>,
    updates: Mutex<Vec<Update>>,
}

impl Progress for Log {
    fn begin(&self, path: &EntryPath, total: Option<ByteCount>) {
        let mut begun = self.begun.lock();
        begun.push((path.to_string(), total));
    }

    fn update(&self, update: Update) {
        self.updates.lock().push(update);
    }
}

#[tokio::test]
async fn progress_begins_with_the_name_and_ends_at_the_size() {
    let place = Place::new();
    let path = place.file("data", &content(3 * MIB));
    let Link {
        sender,
        reader,
        writer,
    } = Link::new(LinkOptions::default());
    let receiver = place.receiver();
    let options = SendOptions::default();
    let logs = [Log::default(), Log::default()];
    both(tokio::join!(
        send_file(sender, &path, &options, &logs[0]),
        receiver.receive(reader, writer, &logs[1]),
    ));
    let total = ByteCount::from(3 * MIB);
    for log in logs {
        let begun = log.begun.into_inner();
        assert_eq!(begun, [("data".to_owned(), Some(total))]);
        let updates = log.updates.into_inner();
        let moving: Vec<ByteCount> = updates
            .iter()
            .filter(|update| update.phase == Phase::Transferring)
            .map(|update| update.done)
            .collect();
        assert!(moving.is_sorted());
        assert_eq!(moving.last(), Some(&total));
        let last = updates.last().expect("there was progress");
        assert_eq!((last.phase, last.done), (Phase::Finished, total));
    }
}

#[test]
fn both_ends_can_be_spawned_as_tasks() {
    fn is_task(work: impl Future + Send) {
        drop(work);
    }
    let place = Place::new();
    let receiver = place.receiver();
    let Link {
        sender,
        reader,
        writer,
    } = Link::new(LinkOptions::default());
    let options = SendOptions::default();
    is_task(send_file(sender, Path::new("x"), &options, &NoProgress));
    is_task(receiver.receive(reader, writer, &NoProgress));
}
