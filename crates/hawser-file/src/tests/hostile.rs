use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, sink, split};

use super::link::Ordered;
use super::*;
use crate::byte_range::ByteRange;
use crate::content::{BlockGrid, FileHash};
use crate::wire::{Answer, FileTime, Kind, Offer, Refusal, Trailer};
use crate::{EntryPath, Fault, NameError, UnorderedRead, fuzzing};

fn offer(size: u64) -> Offer {
    Offer {
        path: EntryPath::new("data").expect("a good name"),
        kind: Kind::File,
        size: ByteCount::new(size),
        modified: FileTime {
            seconds: 1,
            nanoseconds: 0,
        },
        mode: 0o644,
        guard: [0; 32],
    }
}

/// Chunks at the offsets that a hostile transport or peer chose.
pub(super) struct Scripted(pub(super) VecDeque<(u64, Bytes)>);

impl UnorderedRead for Scripted {
    async fn read_chunk(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        Ok(self.0.pop_front())
    }
}

async fn receive_script(
    receiver: &Receiver,
    chunks: impl IntoIterator<Item = (u64, Vec<u8>)>,
) -> Result<Received, ReceiveError> {
    let chunks = chunks.into_iter();
    let script = Scripted(chunks.map(|(at, bytes)| (at, bytes.into())).collect());
    receiver.receive(script, sink(), &NoProgress).await
}

#[tokio::test]
async fn a_stream_that_is_no_transfer_is_refused_at_once() {
    let place = Place::new();
    let receiver = place.receiver();
    let garbage = receive_script(&receiver, [(0, b"GET / HTTP/1.1\r\n".to_vec())]).await;
    assert!(matches!(
        garbage,
        Err(ReceiveError::Misbehaved(Fault::NotAnOffer))
    ));
    let far = receive_script(&receiver, [(1 << 40, vec![0])]).await;
    assert!(matches!(
        far,
        Err(ReceiveError::Misbehaved(Fault::NotAskedFor { .. }))
    ));
    let mut eager = offer(3).encode();
    eager.extend_from_slice(b"abc");
    assert!(matches!(
        receive_script(&receiver, [(0, eager)]).await,
        Err(ReceiveError::Misbehaved(Fault::NotAskedFor { .. }))
    ));
    let mut version = offer(3).encode();
    version[4] = 9;
    let version = receive_script(&receiver, [(0, version)]).await;
    assert_eq!(
        version.as_ref().map_err(ReceiveError::refusal),
        Err(Some(Refusal::Version))
    );
    assert!(matches!(
        receive_script(&receiver, []).await,
        Err(ReceiveError::CutShort)
    ));
    assert!(place.names().is_empty());
}

#[tokio::test]
async fn names_from_the_network_cannot_leave_the_directory() {
    let place = Place::new();
    let outside = place.source.path().join("outside");
    for (name, error) in [
        ("..", NameError::Directory),
        ("../outside", NameError::Separator),
        (outside.to_str().expect("UTF-8"), NameError::Separator),
        ("a\0b", NameError::Control { code: 0 }),
        ("", NameError::Empty),
        (".x.hawser-journal", NameError::Reserved),
    ] {
        // Bypasses the sender's own check: the bytes of an offer with this name.
        let mut bytes = offer(0).encode();
        bytes.truncate(bytes.len() - 6);
        bytes.extend_from_slice(&(name.len() as u16).to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        let length = (bytes.len() - 8) as u16;
        bytes[6..8].copy_from_slice(&length.to_be_bytes());
        let result = receive_script(&place.receiver(), [(0, bytes)]).await;
        assert!(
            matches!(result, Err(ReceiveError::Misbehaved(Fault::Name(found))) if found == error),
            "{name:?}: {result:?}"
        );
        assert_eq!(
            result.as_ref().map_err(ReceiveError::refusal),
            Err(Some(Refusal::Name))
        );
    }
    assert!(!outside.exists() && place.names().is_empty());
}

#[tokio::test]
async fn a_link_in_place_of_the_unfinished_file_is_not_followed() {
    let place = Place::new();
    let precious = place.file("precious", b"precious");
    let path = place.file("data", &content(100));
    for planted in [".data.hawser-part", ".data.hawser-journal"] {
        std::os::unix::fs::symlink(&precious, place.received(planted)).expect("linkable");
    }
    both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert_eq!(fs::read(&precious).expect("there"), b"precious");
    assert_eq!(place.names(), ["data"]);

    let place = Place::new();
    std::os::unix::fs::symlink(&precious, place.received("data")).expect("linkable");
    let (_, received) = transfer(&path, &place.receiver(), LinkOptions::default()).await;
    assert!(matches!(received, Err(ReceiveError::Exists { .. })));
    assert_eq!(fs::read(&precious).expect("there"), b"precious");
}

#[tokio::test]
async fn limits_on_size_and_room_hold_before_a_byte_is_stored() {
    let place = Place::new();
    let receiver = place.receiver_with(ReceiveOptions {
        max_file_size: ByteCount::new(1000),
        ..options()
    });
    let large = receive_script(&receiver, [(0, offer(1001).encode())]).await;
    assert!(matches!(large, Err(ReceiveError::TooLarge { .. })));
    let huge = receive_script(&place.receiver(), [(0, offer(1 << 60).encode())]).await;
    assert_eq!(
        huge.as_ref().map_err(ReceiveError::refusal),
        Err(Some(Refusal::DiskFull)),
        "{huge:?}"
    );
    assert!(place.names().is_empty());
}

#[tokio::test]
async fn a_stream_in_crumbs_is_given_up() {
    let place = Place::new();
    let head = offer(200_000).encode();
    let origin = head.len() as u64;
    let crumbs = (0..100_000u64).map(|index| (origin + 2 * index, vec![0]));
    let chunks = std::iter::once((0, head)).chain(crumbs);
    assert!(matches!(
        receive_script(&place.receiver(), chunks).await,
        Err(ReceiveError::Misbehaved(Fault::TooFragmented { .. }))
    ));
}

#[tokio::test]
async fn a_sender_that_says_nothing_is_given_up() {
    let place = Place::new();
    let receiver = place.receiver_with(ReceiveOptions {
        offer_timeout: Duration::from_millis(20),
        ..options()
    });
    let (_silent, theirs) = duplex(100);
    let (reader, writer) = split(theirs);
    assert!(matches!(
        receiver
            .receive(Ordered::new(reader), writer, &NoProgress)
            .await,
        Err(ReceiveError::Silent { .. })
    ));
}

#[tokio::test]
async fn data_that_never_matches_its_checksum_leaves_nothing() {
    let place = Place::new();
    let size = 3 * MIB as u64;
    let (mut ours, theirs) = duplex(64 << 10);
    let (reader, writer) = split(theirs);
    let liar = async move {
        ours.write_all(&offer(size).encode()).await?;
        let mut asked = Vec::new();
        loop {
            let Ok(Some(answer)) = read_answer(&mut ours, size).await else {
                return Ok::<_, io::Error>((asked, None));
            };
            let Answer::Want(wanted) = answer else {
                return Ok((asked, Some(answer)));
            };
            let length: u64 = wanted.iter().map(|range| range.length()).sum();
            asked.push(length);
            ours.write_all(&vec![7; length as usize]).await?;
            let grid = BlockGrid::for_size(size);
            let trailer = Trailer::Unchanged(vec![[1; 32]; 3]).encode(grid);
            ours.write_all(&trailer).await?;
        }
    };
    let receiver = place.receiver();
    let receive = receiver.receive(Ordered::new(reader), writer, &NoProgress);
    let (told, received) = tokio::join!(liar, receive);
    assert!(matches!(
        received,
        Err(ReceiveError::Mismatch { rounds: 3 })
    ));
    let (asked, last) = told.expect("the stream stays whole");
    assert_eq!(asked, [size; 3]);
    assert!(matches!(
        last,
        Some(Answer::Refused {
            refusal: Refusal::Mismatch,
            ..
        })
    ));
    assert!(place.names().is_empty());
}

/// Reads one answer byte by byte, so that no byte of the next one is consumed.
async fn read_answer(stream: &mut DuplexStream, size: u64) -> io::Result<Option<Answer>> {
    let mut bytes = Vec::new();
    loop {
        match Answer::decode(&bytes, ByteCount::new(size)) {
            Ok(Some((answer, _))) => return Ok(Some(answer)),
            Ok(None) => bytes.push(stream.read_u8().await?),
            Err(_) => return Ok(None),
        }
    }
}

/// Sends a file to a receiver that sends these answers as soon as it has the offer.
async fn send_to(answers: Vec<u8>) -> Result<Sent, SendError> {
    let place = Place::new();
    let path = place.file("data", &content(3 * MIB));
    let (ours, theirs) = duplex(16 << 10);
    let (mut reader, mut writer) = split(theirs);
    let options = SendOptions::default();
    let peer = async {
        let mut offered = vec![0; offer(0).encode().len()];
        let _ = reader.read_exact(&mut offered).await;
        let _ = writer.write_all(&answers).await;
        let _ = tokio::io::copy(&mut reader, &mut sink()).await;
    };
    let send = async {
        // The stream is dropped with the future, so that the peer ends, too.
        let stream = ours;
        send_file(stream, &path, &options, &NoProgress).await
    };
    tokio::join!(send, peer).0
}

#[tokio::test]
async fn a_receiver_that_breaks_the_protocol_is_named() {
    let range = |start, end| ByteRange::new(start, end).expect("not empty");
    let all = Answer::Want(vec![range(0, 3 << 20)]).encode();
    let nothing = Answer::Want(Vec::new()).encode();
    let wrong_hash = Answer::Finished {
        already_there: true,
        hash: FileHash::from_bytes([0; 32]),
    }
    .encode();
    let cases = [
        (vec![9, 0, 0, 0, 0], Fault::AnswerKind { kind: 9 }),
        (
            vec![1, 255, 0, 0, 0],
            Fault::AnswerTooLong { bytes: 0xff00_0000 },
        ),
        (
            Answer::Want(vec![range(0, 4 << 20)]).encode(),
            Fault::Ranges,
        ),
        (wrong_hash.clone(), Fault::Verdict),
        ([all.clone(), all.clone()].concat(), Fault::Unexpected),
        ([nothing, wrong_hash].concat(), Fault::Unexpected),
    ];
    for (answers, expected) in cases {
        let result = send_to(answers).await;
        assert!(
            matches!(result, Err(SendError::Misbehaved(fault)) if fault == expected),
            "{expected:?}: {result:?}"
        );
    }
}

#[tokio::test]
async fn a_receiver_cannot_ask_for_ever() {
    let place = Place::new();
    let size = MIB as u64;
    let path = place.file("data", &content(MIB));
    let (ours, mut theirs) = duplex(64 << 10);
    let options = SendOptions::default();
    let peer = async {
        let head = offer(size).encode().len();
        let mut bytes = vec![0; head];
        theirs.read_exact(&mut bytes).await?;
        let mut rounds = 0;
        loop {
            let ask = Answer::Want(Vec::new()).encode();
            theirs.write_all(&ask).await?;
            let mut trailer = vec![0; Trailer::length(BlockGrid::for_size(size))];
            if theirs.read_exact(&mut trailer).await.is_err() {
                return Ok::<_, io::Error>(rounds);
            }
            rounds += 1;
        }
    };
    let (sent, rounds) = tokio::join!(send_file(ours, &path, &options, &NoProgress), peer);
    assert!(matches!(
        sent,
        Err(SendError::Misbehaved(Fault::TooManyRounds { limit: 8 }))
    ));
    assert_eq!(rounds.expect("the stream stays whole"), 8);
}

proptest! {
    #[test]
    fn fuzzing_entry_points_take_anything(data in prop::collection::vec(any::<u8>(), 0..500)) {
        fuzzing::offer(&data);
        fuzzing::answer(&data);
        fuzzing::trailer(&data);
        fuzzing::name(&data);
        fuzzing::journal(&data);
        fuzzing::placement(&data);
    }

    #[test]
    fn scripted_chunks_never_panic_the_receiver(
        head in any::<bool>(),
        chunks in prop::collection::vec(
            (0..2000u64, prop::collection::vec(any::<u8>(), 1..300)),
            0..12,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let place = Place::new();
        let head = head.then(|| (0, offer(1000).encode()));
        let chunks = head.into_iter().chain(chunks);
        let result = runtime.block_on(receive_script(&place.receiver(), chunks));
        prop_assert!(result.is_err());
        prop_assert!(!place.received("data").exists());
    }
}
