//! Output of a program, of unknown length.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read};

use tokio::io::sink;

use super::hostile::Scripted;
use super::*;
use crate::wire::{FileTime, Kind, Offer, Refusal};
use crate::{EntryPath, ExistingFile, Fault, StoreError, send_input};

async fn send(
    input: impl Read + Send + 'static,
    receiver: &Receiver,
    link: LinkOptions,
) -> Outcome {
    let Link {
        sender,
        reader,
        writer,
    } = Link::new(link);
    let path = EntryPath::new("folder/dump").expect("a good path");
    tokio::join!(
        async {
            // The stream is dropped with the future, so that the receiver notices a failure.
            let sender = sender;
            send_input(sender, || input, &path, &NoProgress).await
        },
        receiver.receive(reader, writer, &NoProgress),
    )
}

#[tokio::test]
async fn an_input_arrives_whole_whatever_the_order_of_its_chunks() {
    for (seed, length) in [(1, 0), (2, 1), (3, 40), (4, MIB), (5, 9 * MIB + 3)] {
        let place = Place::new();
        let bytes = content(length);
        let link = LinkOptions {
            seed,
            chunk: if length < MIB { 10 } else { 64 << 10 },
            repeated: 20,
            ..LinkOptions::default()
        };
        let (sent, received) =
            both(send(Cursor::new(bytes.clone()), &place.receiver(), link).await);
        assert_eq!(sent.hash, blake3::hash(&bytes));
        assert_eq!(sent.size, ByteCount::from(length));
        assert_eq!(received.size, ByteCount::from(length));
        assert_eq!(
            fs::read(place.received("folder/dump")).expect("there"),
            bytes
        );
        assert_eq!(names_in(&place.received("folder")), ["dump"]);
    }
}

#[tokio::test]
async fn nothing_is_kept_of_an_input_that_was_cut_or_damaged() {
    let damaged = LinkOptions {
        damage: Some(MIB as u64),
        ..LinkOptions::default()
    };
    let cut = LinkOptions {
        cut: Some(2 * MIB as u64),
        ..LinkOptions::default()
    };
    for link in [damaged, cut] {
        let place = Place::new();
        let input = Cursor::new(content(3 * MIB));
        let (sent, received) = send(input, &place.receiver(), link).await;
        assert!(sent.is_err() && received.is_err(), "{sent:?} {received:?}");
        assert!(names_in(&place.received("folder")).is_empty());
    }
}

/// Returns some bytes, then fails.
struct Failing(usize);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("torn"));
        }
        let length = buffer.len().min(self.0);
        buffer[..length].fill(7);
        self.0 -= length;
        Ok(length)
    }
}

#[tokio::test]
async fn an_input_that_fails_is_not_taken_for_one_that_ends() {
    let place = Place::new();
    let (sent, received) = send(Failing(MIB), &place.receiver(), LinkOptions::default()).await;
    assert!(matches!(sent, Err(SendError::Input(_))), "{sent:?}");
    assert!(received.is_err(), "{received:?}");
    assert!(names_in(&place.received("folder")).is_empty());
}

#[tokio::test]
async fn an_input_never_takes_the_place_of_a_file_unless_asked_to() {
    let place = Place::new();
    fs::create_dir(place.received("folder")).expect("writable");
    fs::write(place.received("folder/dump"), "mine").expect("writable");
    let input = || Cursor::new(b"new".to_vec());
    let (sent, received) = send(input(), &place.receiver(), LinkOptions::default()).await;
    assert!(matches!(received, Err(ReceiveError::Occupied { .. })));
    assert!(matches!(
        sent,
        Err(SendError::Refused { refusal: Refusal::Exists, detail })
            if detail == "folder/dump exists already"
    ));
    assert_eq!(
        fs::read(place.received("folder/dump")).expect("there"),
        b"mine"
    );

    let replacing = place.receiver_with(ReceiveOptions {
        existing: ExistingFile::Replace,
        ..options()
    });
    both(send(input(), &replacing, LinkOptions::default()).await);
    assert_eq!(
        fs::read(place.received("folder/dump")).expect("there"),
        b"new"
    );
}

#[tokio::test]
async fn an_input_without_end_is_bounded() {
    let place = Place::new();
    let small = place.receiver_with(ReceiveOptions {
        max_file_size: ByteCount::from(MIB),
        ..options()
    });
    let (sent, received) = send(io::repeat(7), &small, LinkOptions::default()).await;
    assert!(matches!(received, Err(ReceiveError::TooLarge { .. })));
    assert!(matches!(
        sent,
        Err(SendError::Refused {
            refusal: Refusal::TooLarge,
            ..
        })
    ));
    assert!(names_in(&place.received("folder")).is_empty());
}

#[tokio::test]
async fn chunks_of_an_input_at_hostile_offsets_are_refused() {
    let place = Place::new();
    let offer = Offer {
        path: EntryPath::new("dump").expect("a good path"),
        kind: Kind::Input,
        size: ByteCount::ZERO,
        modified: FileTime {
            seconds: 1,
            nanoseconds: 0,
        },
        mode: 0o666,
        guard: [0; 32],
    };
    let offer = offer.encode();
    let origin = offer.len() as u64;
    let receive = async |chunks: Vec<(u64, Vec<u8>)>| {
        let chunks = std::iter::once((0, offer.clone())).chain(chunks);
        let script = chunks.map(|(at, bytes)| (at, bytes.into()));
        let script = Scripted(script.collect::<VecDeque<_>>());
        place.receiver().receive(script, sink(), &NoProgress).await
    };
    let far = receive(vec![(u64::MAX - 5, vec![0; 9])]).await;
    assert!(matches!(far, Err(ReceiveError::TooLarge { .. })), "{far:?}");
    // The sparse file would fit on the disk, but not a file of its full length.
    let sparse = receive(vec![(origin, vec![0; 9]), (origin + (1 << 55), vec![0; 9])]).await;
    assert!(
        matches!(
            sparse,
            Err(ReceiveError::Store(StoreError::DiskFull { .. }))
        ),
        "{sparse:?}"
    );
    assert!(place.names().is_empty());
    let crumbs = (1..70_000).map(|index| (origin + 2 * index, vec![0]));
    assert!(matches!(
        receive(crumbs.collect()).await,
        Err(ReceiveError::Misbehaved(Fault::TooFragmented { .. }))
    ));
    let hole = receive(vec![(origin + 100, vec![0; 40])]).await;
    assert!(matches!(hole, Err(ReceiveError::CutShort)), "{hole:?}");
    let short = receive(vec![(origin, vec![0; 32])]).await;
    assert!(matches!(short, Err(ReceiveError::CutShort)), "{short:?}");
    let wrong = receive(vec![(origin, vec![0; 33])]).await;
    assert!(
        matches!(wrong, Err(ReceiveError::Mismatch { .. })),
        "{wrong:?}"
    );
    let torn = receive(vec![(origin, vec![9; 33])]).await;
    assert!(matches!(
        torn,
        Err(ReceiveError::Misbehaved(Fault::Trailer))
    ));
    assert!(place.names().is_empty());
}
