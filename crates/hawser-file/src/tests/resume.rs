use std::time::Duration;

use super::*;
use crate::Refusal;

/// Length of the offer of a file named `data`.
const OFFER: u64 = 66 + 4;

#[tokio::test]
async fn a_transfer_cut_anywhere_continues_with_what_is_missing() {
    let length = 5 * MIB + 77;
    let bytes = content(length);
    let trailer = 1 + 32 * 6;
    let (mib, size) = (MIB as u64, length as u64);
    let data = [
        0,
        1,
        mib - 1,
        mib,
        mib + 1,
        size / 2,
        size - 1,
        size,
        size + 1,
        size + trailer - 1,
    ];
    let cuts = [0, 1, OFFER - 1].into_iter();
    for cut in cuts.chain(data.into_iter().map(|at| OFFER + at)) {
        let place = Place::new();
        let path = place.file("data", &bytes);
        let link = LinkOptions {
            cut: Some(cut),
            seed: cut,
            ..LinkOptions::default()
        };
        let (sent, received) = transfer(&path, &place.receiver(), link).await;
        assert!(matches!(sent, Err(SendError::Stream(_))), "{cut}: {sent:?}");
        assert!(received.is_err(), "{cut}");
        assert!(!place.received("data").exists(), "{cut}: no final file yet");

        // A new receiver, as after a restart.
        let link = LinkOptions::default();
        let (sent, _) = both(transfer(&path, &place.receiver(), link).await);
        let there = cut.saturating_sub(OFFER).min(size);
        assert_eq!(sent.transferred.as_u64(), size - there, "{cut}");
        assert_eq!(fs::read(place.received("data")).expect("there"), bytes);
        assert_eq!(place.names(), ["data"]);
    }
}

#[tokio::test]
async fn a_lost_verdict_is_found_out_the_next_time() {
    let place = Place::new();
    let path = place.file("data", &content(2 * MIB));
    let everything = OFFER + 2 * MIB as u64 + 1 + 64;
    let link = LinkOptions {
        cut: Some(everything),
        ..LinkOptions::default()
    };
    let (sent, received) = transfer(&path, &place.receiver(), link).await;
    assert!(matches!(sent, Err(SendError::Stream(_))));
    assert!(received.is_ok());
    let (sent, _) = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert!(sent.already_there);
}

#[tokio::test]
async fn many_cuts_still_send_each_byte_once() {
    let place = Place::new();
    let length = 6 * MIB;
    let bytes = content(length);
    let path = place.file("data", &bytes);
    let mut sent_before = 0;
    for attempt in 0..5 {
        let link = LinkOptions {
            cut: Some(OFFER + MIB as u64 + 1),
            seed: attempt,
            ..LinkOptions::default()
        };
        assert!(transfer(&path, &place.receiver(), link).await.0.is_err());
        sent_before += MIB as u64 + 1;
    }
    let (sent, _) = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert_eq!(sent.transferred.as_u64() + sent_before, length as u64);
    assert_eq!(fs::read(place.received("data")).expect("there"), bytes);
}

#[tokio::test]
async fn a_file_changed_between_attempts_begins_anew() {
    let place = Place::new();
    let path = place.file("data", &content(3 * MIB));
    let link = LinkOptions {
        cut: Some(OFFER + MIB as u64),
        ..LinkOptions::default()
    };
    assert!(transfer(&path, &place.receiver(), link).await.0.is_err());
    let mut bytes = content(3 * MIB);
    bytes[0] ^= 1;
    let time = fs::metadata(&path)
        .and_then(|metadata| metadata.modified())
        .expect("known");
    let path = place.file("data", &bytes);
    let file = fs::File::options().write(true).open(&path).expect("opens");
    file.set_modified(time).expect("settable");
    let (sent, _) = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert_eq!(sent.transferred, ByteCount::from(3 * MIB));
    assert_eq!(fs::read(place.received("data")).expect("there"), bytes);
}

#[tokio::test]
async fn a_dropped_transfer_keeps_what_arrived() {
    let place = Place::new();
    let path = place.file("data", &content(4 * MIB));
    let receiver = place.receiver();
    let (passed, halfway) = tokio::sync::oneshot::channel();
    let link = LinkOptions {
        stall: Some(OFFER + 2 * MIB as u64),
        hook: Some((
            OFFER + 2 * MIB as u64,
            Box::new(move || passed.send(()).expect("awaited")),
        )),
        ..LinkOptions::default()
    };
    tokio::select! {
        _ = transfer(&path, &receiver, link) => panic!("it stalls"),
        _ = halfway => {}
    }
    // The same receiver: the thread of the dropped transfer must release the file first.
    let (sent, _) = both(transfer(&path, &receiver, LinkOptions::default()).await);
    assert!(sent.transferred < ByteCount::from(4 * MIB));
    assert!(sent.transferred >= ByteCount::from(2 * MIB));
}

#[tokio::test]
async fn a_new_attempt_takes_over_from_one_that_hangs() {
    let place = Place::new();
    let bytes = content(4 * MIB);
    let path = place.file("data", &bytes);
    let receiver = place.receiver();
    let (passed, halfway) = tokio::sync::oneshot::channel();
    let link = LinkOptions {
        stall: Some(OFFER + 2 * MIB as u64),
        hook: Some((
            OFFER + 2 * MIB as u64,
            Box::new(move || passed.send(()).expect("awaited")),
        )),
        ..LinkOptions::default()
    };
    let hanging = transfer(&path, &receiver, link);
    let second = async {
        halfway.await.expect("the first attempt got halfway");
        transfer(&path, &receiver, LinkOptions::default()).await
    };
    let ((old_sent, old_received), new) = tokio::join!(hanging, second);
    assert!(matches!(old_received, Err(ReceiveError::Superseded)));
    assert!(matches!(
        old_sent,
        Err(SendError::Refused {
            refusal: Refusal::Superseded,
            ..
        })
    ));
    let (sent, _) = both(new);
    assert!(sent.transferred < ByteCount::from(4 * MIB));
    assert_eq!(fs::read(place.received("data")).expect("there"), bytes);
}

#[tokio::test]
async fn another_file_of_a_name_in_transfer_is_refused() {
    let place = Place::new();
    let path = place.file("data", &content(4 * MIB));
    let other = Place::new();
    let other_path = other.file("data", b"something else");
    let receiver = place.receiver();
    let (passed, halfway) = tokio::sync::oneshot::channel();
    let link = LinkOptions {
        stall: Some(OFFER + MIB as u64),
        hook: Some((
            OFFER + MIB as u64,
            Box::new(move || passed.send(()).expect("awaited")),
        )),
        ..LinkOptions::default()
    };
    let second = async {
        halfway.await.expect("the first attempt got halfway");
        transfer(&other_path, &receiver, LinkOptions::default()).await
    };
    tokio::select! {
        _ = transfer(&path, &receiver, link) => panic!("it stalls"),
        (_, received) = second => {
            assert!(matches!(received, Err(ReceiveError::Busy { .. })));
        }
    }
}

#[tokio::test]
async fn no_more_files_at_once_than_allowed() {
    let place = Place::new();
    let path = place.file("data", &content(2 * MIB));
    let other = place.file("other", b"more");
    let receiver = place.receiver_with(ReceiveOptions {
        max_files: 1,
        ..options()
    });
    let (passed, halfway) = tokio::sync::oneshot::channel();
    let link = LinkOptions {
        stall: Some(OFFER + MIB as u64),
        hook: Some((
            OFFER + MIB as u64,
            Box::new(move || passed.send(()).expect("awaited")),
        )),
        ..LinkOptions::default()
    };
    let second = async {
        halfway.await.expect("the first attempt got halfway");
        transfer(&other, &receiver, LinkOptions::default()).await
    };
    tokio::select! {
        _ = transfer(&path, &receiver, link) => panic!("it stalls"),
        (_, received) = second => {
            assert!(matches!(received, Err(ReceiveError::TooManyFiles { limit: 1 })));
        }
    }
}

#[tokio::test]
async fn a_silent_sender_is_given_up_and_its_bytes_kept() {
    let place = Place::new();
    let path = place.file("data", &content(2 * MIB));
    // Never reached in real time, however busy the machine is.
    let idle_timeout = Duration::from_secs(1000);
    let receiver = place.receiver_with(ReceiveOptions {
        idle_timeout,
        ..options()
    });
    let (tell, starved) = tokio::sync::oneshot::channel();
    let stall = OFFER + MIB as u64;
    let link = LinkOptions {
        stall: Some(stall),
        starved: Some((stall, Box::new(|| tell.send(()).unwrap()))),
        ..LinkOptions::default()
    };
    let passing = async {
        starved.await.expect("the receiver has what came");
        tokio::time::pause();
        tokio::time::advance(idle_timeout).await;
        tokio::time::resume();
        std::future::pending().await
    };
    tokio::select! {
        (_, received) = transfer(&path, &receiver, link) => {
            assert!(matches!(received, Err(ReceiveError::Silent { .. })));
        }
        () = passing => {}
    }
    let (sent, _) = both(transfer(&path, &place.receiver(), LinkOptions::default()).await);
    assert_eq!(sent.transferred, ByteCount::from(MIB));
}
