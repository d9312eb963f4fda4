use hawser_types::{ByteCount, RangeSet};
use proptest::prelude::*;

use super::*;
use crate::byte_range::{ByteRange, byte_ranges};
use crate::content::{BlockGrid, FileHash};
use crate::entry_path::EntryPath;
use crate::link_target::{LinkError, LinkTarget};
use crate::name::NameError;

fn offer(path: &str) -> Offer {
    Offer {
        path: EntryPath::new(path).expect("the test's name is a good one"),
        kind: Kind::File,
        size: ByteCount::new(0x0102_0304),
        modified: FileTime {
            seconds: -2,
            nanoseconds: 5,
        },
        mode: 0o640,
        guard: [7; 32],
    }
}

fn empty(path: &str) -> Offer {
    Offer {
        size: ByteCount::ZERO,
        ..offer(path)
    }
}

#[test]
fn an_offer_has_these_bytes() {
    let mut expected = b"HWSF\x01\x00\x00\x3c".to_vec();
    expected.extend_from_slice(&[0, 0, 0, 0, 1, 2, 3, 4]);
    expected.extend_from_slice(&[255, 255, 255, 255, 255, 255, 255, 254]);
    expected.extend_from_slice(&[0, 0, 0, 5]);
    expected.extend_from_slice(&[0, 0, 1, 0xa0]);
    expected.extend_from_slice(&[7; 32]);
    expected.extend_from_slice(&[0, 2]);
    expected.extend_from_slice(b"ab");
    assert_eq!(offer("ab").encode(), expected);
}

#[test]
fn an_offer_of_something_in_a_folder_has_these_bytes() {
    let link = |target: &str| {
        let mut link = empty("t/ab");
        let target = LinkTarget::new(&link.path, target.as_bytes());
        link.kind = Kind::Link(target.expect("the test's target is a good one"));
        link
    };
    let mut expected = b"HWSF\x02\x00\x00\x42".to_vec();
    expected.extend_from_slice(&[0; 8]);
    expected.extend_from_slice(&offer("ab").encode()[16..64]);
    expected.extend_from_slice(b"\0\x04t/ab\x02\0\x01b");
    assert_eq!(link("b").encode(), expected);
    assert_ne!(link("b").identity(), link("c").identity());

    let change = |at: usize, with: &[u8]| {
        let mut bytes = expected.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        Offer::decode(&bytes)
    };
    let length = expected.len();
    assert_eq!(Offer::decode(&expected), Ok(Some((link("b"), length))));
    for (kind, code) in [(Kind::File, 0), (Kind::Directory, 1), (Kind::Input, 3)] {
        let offer = Offer {
            kind,
            ..empty("t/ab")
        };
        assert_eq!(change(70, &[code]), Ok(Some((offer, length))));
    }
    assert_eq!(change(70, &[4]), Err(Fault::Kind { kind: 4 }));
    assert_eq!(change(71, &[1]), Err(Fault::OfferTooShort));
    assert_eq!(change(73, b"/"), Err(Fault::Link(LinkError::Outside)));
    assert_eq!(change(66, b"/"), Err(Fault::Name(NameError::Absolute)));
    let up = b"../b";
    assert_eq!(change(66, up), Err(Fault::Name(NameError::Directory)));
    assert_eq!(
        change(6, &[0x20, 0]),
        Err(Fault::OfferTooLong { bytes: 0x2000 })
    );
}

#[test]
fn fields_behind_the_name_are_left_to_a_later_version() {
    let mut bytes = offer("ab").encode();
    bytes[7] += 3;
    bytes.extend_from_slice(b"new");
    assert_eq!(Offer::decode(&bytes), Ok(Some((offer("ab"), bytes.len()))));
}

#[test]
fn an_offer_with_a_field_out_of_bounds_is_refused_by_that_field() {
    let change = |at: usize, with: &[u8]| {
        let mut bytes = offer("ab").encode();
        bytes[at..at + with.len()].copy_from_slice(with);
        Offer::decode(&bytes)
    };
    assert_eq!(change(0, b"HTTP"), Err(Fault::NotAnOffer));
    assert_eq!(change(4, &[3]), Err(Fault::Version { found: 3 }));
    assert_eq!(change(6, &[4, 0]), Err(Fault::OfferTooLong { bytes: 1024 }));
    assert_eq!(change(6, &[0, 9]), Err(Fault::OfferTooShort));
    assert_eq!(
        change(8, &[0x7f]),
        Err(Fault::Size {
            bytes: 0x7f00_0000_0102_0304
        })
    );
    assert_eq!(
        change(24, &[255; 4]),
        Err(Fault::Time {
            nanoseconds: u32::MAX
        })
    );
    assert_eq!(change(28, &[255; 4]), Err(Fault::Mode { mode: u32::MAX }));
    assert_eq!(change(64, &[255, 255]), Err(Fault::OfferTooShort));
    assert_eq!(change(66, b".."), Err(Fault::Name(NameError::Directory)));
    assert_eq!(
        change(66, b"a\0"),
        Err(Fault::Name(NameError::Control { code: 0 }))
    );
}

#[test]
fn permission_bits_do_not_make_another_file() {
    let mut other = offer("ab");
    other.mode = 0o777;
    assert_eq!(other.identity(), offer("ab").identity());
    other.guard[0] = 0;
    assert_ne!(other.identity(), offer("ab").identity());
    assert_ne!(offer("ab").identity(), offer("abc").identity());
}

#[test]
fn answers_have_these_bytes() {
    let want = Answer::Want(vec![range(1, 3)]);
    let mut expected = vec![1, 0, 0, 0, 16];
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(want.encode(), expected);
    let refused = Answer::Refused {
        refusal: Refusal::Exists,
        detail: "no".to_owned(),
    };
    assert_eq!(refused.encode(), [3, 0, 0, 0, 4, 0, 7, b'n', b'o']);
    let finished = Answer::Finished {
        already_there: true,
        hash: FileHash::from_bytes([9; 32]),
    };
    assert_eq!(finished.encode()[..7], [2, 0, 0, 0, 33, 1, 9]);
}

#[test]
fn wanted_ranges_must_ascend_within_the_file() {
    let size = ByteCount::new(100);
    for bad in [
        vec![range(10, 20), range(20, 30)],
        vec![range(10, 20), range(5, 8)],
        vec![range(90, 101)],
    ] {
        assert_eq!(
            Answer::decode(&Answer::Want(bad).encode(), size),
            Err(Fault::Ranges)
        );
    }
    let mut empty = Answer::Want(vec![range(1, 2)]).encode();
    empty[20] = 0;
    assert_eq!(Answer::decode(&empty, size), Err(Fault::Ranges));
}

#[test]
fn a_refusal_cannot_write_to_the_terminal() {
    let refused = Answer::Refused {
        refusal: Refusal::Unknown(999),
        detail: "\u{1b}[2J\nok".to_owned(),
    };
    let Ok(Some((Answer::Refused { refusal, detail }, _))) =
        Answer::decode(&refused.encode(), ByteCount::ZERO)
    else {
        panic!("a refusal was encoded");
    };
    assert_eq!(
        (refusal, detail.as_str()),
        (Refusal::Unknown(999), " [2J ok")
    );
}

#[test]
fn an_overlong_refusal_is_cut_between_characters() {
    let refused = Answer::Refused {
        refusal: Refusal::Storage,
        detail: format!("x{}", "ü".repeat(400)),
    };
    let Ok(Some((Answer::Refused { detail, .. }, _))) =
        Answer::decode(&refused.encode(), ByteCount::ZERO)
    else {
        panic!("a refusal was encoded");
    };
    assert_eq!(detail.len(), 511);
}

#[test]
fn a_trailer_has_the_length_that_both_ends_expect() {
    let grid = BlockGrid::for_size(3 << 20);
    let trailer = Trailer::Unchanged(vec![[1; 32], [2; 32], [3; 32]]);
    assert_eq!(trailer.encode(grid).len(), Trailer::length(grid));
    assert_eq!(Trailer::decode(&trailer.encode(grid)), Ok(trailer));
    let changed = Trailer::Changed.encode(grid);
    assert_eq!(changed.len(), Trailer::length(grid));
    assert_eq!(Trailer::decode(&changed), Ok(Trailer::Changed));
    assert_eq!(Trailer::decode(&[]), Err(Fault::Trailer));
    assert_eq!(Trailer::decode(&[2; 33]), Err(Fault::Trailer));
    assert_eq!(Trailer::decode(&[0; 32]), Err(Fault::Trailer));
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).expect("a range of the test is not empty")
}

prop_compose! {
    fn any_offer()(
        path in "[^/\\p{Cc}]{1,60}(/[a-c.]{1,3}){0,3}",
        target in prop::option::of("(\\.\\./)?[a-c]{1,9}"),
        kind in prop_oneof![Just(Kind::File), Just(Kind::Directory), Just(Kind::Input)],
        size in 0..=MAX_FILE_BYTES,
        seconds in any::<i64>(),
        nanoseconds in 0..1_000_000_000u32,
        mode in 0..=0o7777u32,
        guard in any::<[u8; 32]>(),
    ) -> Option<Offer> {
        let path = EntryPath::new(&path).ok()?;
        let kind = match target {
            Some(target) => Kind::Link(LinkTarget::new(&path, target.as_bytes()).ok()?),
            None => kind,
        };
        let size = if kind == Kind::File { size } else { 0 };
        Some(Offer {
            path,
            kind,
            size: ByteCount::new(size),
            modified: FileTime { seconds, nanoseconds },
            mode,
            guard,
        })
    }
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let want = prop::collection::vec((0..1000u64, 1..50u64), 0..20).prop_map(|ranges| {
        let set: RangeSet = ranges.iter().map(|&(s, l)| s..s + l).collect();
        Answer::Want(byte_ranges(set.iter()).collect())
    });
    let finished =
        (any::<bool>(), any::<[u8; 32]>()).prop_map(|(already_there, hash)| Answer::Finished {
            already_there,
            hash: FileHash::from_bytes(hash),
        });
    let refused = (any::<u16>(), "[^\\p{Cc}]{0,50}").prop_map(|(code, detail)| Answer::Refused {
        refusal: Refusal::from_code(code),
        detail,
    });
    prop_oneof![want, finished, refused]
}

proptest! {
    #[test]
    fn offers_survive_the_round_trip_and_ask_for_more_until_whole(offer in any_offer()) {
        let Some(offer) = offer else { return Ok(()) };
        let bytes = offer.encode();
        for cut in 0..bytes.len() {
            prop_assert_eq!(Offer::decode(&bytes[..cut]), Ok(None));
        }
        prop_assert_eq!(Offer::decode(&bytes), Ok(Some((offer, bytes.len()))));
    }

    #[test]
    fn answers_survive_the_round_trip_and_ask_for_more_until_whole(answer in any_answer()) {
        let bytes = answer.encode();
        let size = ByteCount::new(2000);
        for cut in 0..bytes.len() {
            prop_assert_eq!(Answer::decode(&bytes[..cut], size), Ok(None));
        }
        prop_assert_eq!(Answer::decode(&bytes, size), Ok(Some((answer, bytes.len()))));
    }

    #[test]
    fn refusal_codes_survive_the_round_trip(code in any::<u16>()) {
        prop_assert_eq!(Refusal::from_code(code).code(), code);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        size in any::<u64>(),
    ) {
        let _ = Offer::decode(&bytes);
        let _ = Answer::decode(&bytes, ByteCount::new(size));
        let _ = Trailer::decode(&bytes);
        for version in [1, 2] {
            let mut offer = b"HWSF".to_vec();
            offer.extend_from_slice(&[version, 0]);
            offer.extend_from_slice(&bytes);
            let _ = Offer::decode(&offer);
        }
    }
}
