//! Leftovers of a killed receiver, and their use.

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hawser_types::RangeSet;
use tokio::net::{UnixListener, UnixStream};

use super::link::Ordered;
use super::*;
use crate::source::{FollowLinks, Source};
use crate::store::decode_journal;

const PART: &str = ".data.hawser-part";
const JOURNAL: &str = ".data.hawser-journal";
const DRAFT: &str = ".data.hawser-journal-new";
const OFFER: u64 = 66 + 4;

/// Interrupts a transfer of 6 MiB after the first four.
async fn interrupted() -> (Place, PathBuf) {
    let place = Place::new();
    let path = place.file("data", &content(6 * MIB));
    let link = LinkOptions {
        cut: Some(OFFER + 4 * MIB as u64),
        ..LinkOptions::default()
    };
    assert!(transfer(&path, &place.receiver(), link).await.0.is_err());
    assert_eq!(place.names(), [JOURNAL, PART]);
    (place, path)
}

/// Sends again; returns how many bytes were transferred.
async fn send_again(place: &Place, path: &Path) -> usize {
    let (sent, _) = both(transfer(path, &place.receiver(), LinkOptions::default()).await);
    let expected = fs::read(path).expect("there");
    assert!(fs::read(place.received("data")).expect("there") == expected);
    assert_eq!(place.names(), ["data"], "nothing else is left behind");
    sent.transferred.as_usize()
}

#[tokio::test]
async fn without_its_journal_an_unfinished_file_counts_for_nothing() {
    let (place, path) = interrupted().await;
    fs::remove_file(place.received(JOURNAL)).expect("removable");
    assert_eq!(send_again(&place, &path).await, 6 * MIB);
}

#[tokio::test]
async fn a_torn_journal_counts_for_nothing() {
    let (place, path) = interrupted().await;
    let journal = fs::read(place.received(JOURNAL)).expect("there");
    fs::write(place.received(JOURNAL), &journal[..journal.len() - 1]).expect("writable");
    assert_eq!(send_again(&place, &path).await, 6 * MIB);
}

#[tokio::test]
async fn a_journal_without_its_file_counts_for_nothing() {
    let (place, path) = interrupted().await;
    fs::remove_file(place.received(PART)).expect("removable");
    assert_eq!(send_again(&place, &path).await, 6 * MIB);
}

#[tokio::test]
async fn a_journal_beside_a_truncated_file_counts_for_nothing() {
    let (place, path) = interrupted().await;
    let part = fs::File::options()
        .write(true)
        .open(place.received(PART))
        .expect("there");
    part.set_len(3 * MIB as u64).expect("settable");
    assert_eq!(send_again(&place, &path).await, 6 * MIB);
}

#[tokio::test]
async fn a_journal_that_was_being_written_does_not_hurt_the_last_one() {
    let (place, path) = interrupted().await;
    fs::write(place.received(DRAFT), b"HWSJ half of it").expect("writable");
    assert_eq!(send_again(&place, &path).await, 2 * MIB);
}

#[tokio::test]
async fn bytes_that_rotted_on_disk_are_found_and_sent_again() {
    let (place, path) = interrupted().await;
    let part = fs::File::options()
        .write(true)
        .open(place.received(PART))
        .expect("there");
    part.write_all_at(b"rotten", MIB as u64 + 500)
        .expect("writable");
    assert_eq!(send_again(&place, &path).await, 2 * MIB + MIB);
}

#[tokio::test]
async fn a_crash_between_the_final_name_and_the_journals_end_is_cleaned_up() {
    let (place, path) = interrupted().await;
    fs::remove_file(place.received(PART)).expect("removable");
    fs::copy(&path, place.received("data")).expect("writable");
    assert_eq!(send_again(&place, &path).await, 0);
}

const SOCKET: &str = "HAWSER_TEST_SOCKET";
const TARGET: &str = "HAWSER_TEST_TARGET";

/// Not a test by itself: the receiver process that the next test kills.
#[tokio::test]
async fn receiver_to_be_killed() {
    let (Some(socket), Some(target)) = (std::env::var_os(SOCKET), std::env::var_os(TARGET)) else {
        return;
    };
    let stream = UnixStream::connect(socket).await.expect("the test listens");
    let (reader, writer) = stream.into_split();
    let quick = ReceiveOptions {
        checkpoint_bytes: ByteCount::from(2 * MIB),
        checkpoint_interval: Duration::from_millis(10),
        ..options()
    };
    let receiver = Receiver::new(Path::new(&target), quick).expect("the directory is there");
    let _ = receiver
        .receive(Ordered::new(reader), writer, &NoProgress)
        .await;
}

#[tokio::test]
async fn after_a_kill_the_journal_claims_only_bytes_that_are_there() {
    let place = Place::new();
    let length = 64 * MIB;
    let bytes = content(length);
    let path = place.file("data", &bytes);
    let socket = place.source.path().join("socket");
    let listener = UnixListener::bind(&socket).expect("bindable");
    let mut child = Command::new(std::env::current_exe().expect("known on Linux"))
        .args(["--exact", "tests::crash::receiver_to_be_killed"])
        .env(SOCKET, &socket)
        .env(TARGET, place.target.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("this very program starts");
    let (stream, _) = listener.accept().await.expect("the child connects");
    let options = SendOptions::default();
    let journal = place.received(JOURNAL);
    let kill = async {
        let deadline = Instant::now() + Duration::from_secs(60);
        // Waits for the third journal, so that one was replaced during the transfer.
        let mut seen = Vec::new();
        while seen.len() < 3 {
            assert!(Instant::now() < deadline, "no journal appeared");
            match fs::read(&journal) {
                Ok(state) if !seen.contains(&state) => seen.push(state),
                _ => tokio::task::yield_now().await,
            }
        }
        child.kill().expect("the child runs");
        child.wait().expect("the child is ours");
    };
    let (sent, ()) = tokio::join!(send_file(stream, &path, &options, &NoProgress), kill);
    assert!(sent.is_err(), "the child was killed too late");

    let claimed = claimed_ranges(&path, &journal);
    assert!(!claimed.is_empty());
    let part = fs::read(place.received(PART)).expect("there");
    for range in claimed.iter() {
        let range = range.start as usize..range.end as usize;
        assert!(part[range.clone()] == bytes[range], "a claim is false");
    }
    let again = send_again(&place, &path).await;
    assert_eq!(again as u64, length as u64 - claimed.total());
}

fn claimed_ranges(path: &Path, journal: &Path) -> RangeSet {
    let source = Source::open(path, None, FollowLinks::Yes).expect("readable");
    let offer = source.offer();
    let bytes = fs::read(journal).expect("there");
    decode_journal(&bytes, offer.identity(), offer.size.as_u64()).expect("the journal is whole")
}
