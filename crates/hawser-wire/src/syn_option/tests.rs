use proptest::prelude::*;

use super::*;

fn paper(interfaces: u8, connection: u32) -> SynOption {
    SynOption {
        offer: Offer {
            form: OfferForm::Paper,
            version: 0,
            interfaces,
            key_hint: None,
        },
        bond: true,
        connection,
    }
}

fn binary(bond: bool, interfaces: u8, connection: u32, key_hint: Option<[u8; 8]>) -> SynOption {
    SynOption {
        offer: Offer {
            form: OfferForm::Binary,
            version: 1,
            interfaces,
            key_hint: key_hint.map(KeyHint),
        },
        bond,
        connection,
    }
}

fn bytes(option: &SynOption) -> Vec<u8> {
    option.encode().unwrap().as_ref().to_vec()
}

#[test]
fn the_papers_form_is_six_digits_of_text() {
    for (interfaces, connection, golden) in [
        (2, 4711, b"\xfe\x08024711"),
        (99, 7, b"\xfe\x08990007"),
        (1, 0, b"\xfe\x08010000"),
    ] {
        let option = paper(interfaces, connection);
        assert_eq!(bytes(&option), golden);
        assert_eq!(SynOption::decode(golden), Ok(option));
    }
}

#[test]
fn the_binary_form_has_these_golden_bytes() {
    let question = binary(false, 3, 0x0102_0304, None);
    assert_eq!(bytes(&question), b"\xfe\x0aHW\x10\x03\x01\x02\x03\x04");
    let answer = binary(true, 2, 0x0102_0304, Some(*b"key-hint"));
    assert_eq!(
        bytes(&answer),
        b"\xfe\x12HW\x11\x02\x01\x02\x03\x04key-hint"
    );
    assert_eq!(SynOption::decode(&bytes(&question)), Ok(question));
    assert_eq!(SynOption::decode(&bytes(&answer)), Ok(answer));
    assert!(answer.is_answer_to(&question));
}

#[test]
fn both_forms_fit_beside_what_linux_sends_in_a_handshake() {
    // Maximum segment size, window scale, and SACK-permitted with timestamps; all padded.
    let others = 4 + 4 + 12;
    let longest = SynOption::MAX_LENGTH.next_multiple_of(4);
    assert_eq!(others + longest, 40);
}

#[test]
fn values_that_a_form_cannot_say_are_refused() {
    let fails = |option: SynOption| option.encode().unwrap_err();
    assert_eq!(fails(paper(0, 1)), SynOptionError::Interfaces(0));
    assert_eq!(fails(paper(100, 1)), SynOptionError::Interfaces(100));
    assert_eq!(fails(paper(2, 10_000)), SynOptionError::Connection(10_000));
    let changes: [fn(&mut SynOption); 3] = [
        |it| it.bond = false,
        |it| it.offer.version = 1,
        |it| it.offer.key_hint = Some(KeyHint([0; 8])),
    ];
    for change in changes {
        let mut option = paper(2, 1);
        change(&mut option);
        assert_eq!(fails(option), SynOptionError::NotInPaper);
    }
    let mut later = binary(false, 2, 1, None);
    later.offer.version = 2;
    assert_eq!(fails(later), SynOptionError::Version(2));
    assert_eq!(
        fails(binary(false, 0, 1, None)),
        SynOptionError::Interfaces(0)
    );
}

#[test]
fn wrong_bytes_are_refused_for_what_is_wrong_with_them() {
    use SynOptionError as E;
    for (bytes, error) in [
        (&b""[..], E::Length(0)),
        (b"\xfe", E::Length(1)),
        (b"\xfe\x02", E::Length(2)),
        (b"\xfe\x03H", E::Length(3)),
        (b"\x05\x02", E::Kind(5)),
        (b"\xfe\x08\xf9\x89cook", E::OtherExperiment(0xf989)),
        (b"\xfe\x08024711x", E::Length(8)),
        (b"\xfe\x0702471", E::Length(7)),
        (b"\xfe\x090247110", E::Length(9)),
        (b"\xfe\x0802471x", E::Digit(b'x')),
        (b"\xfe\x08024 11", E::Digit(b' ')),
        (b"\xfe\x08000001", E::Interfaces(0)),
        (b"\xfe\x09HW\x10\x03\x01\x02\x03", E::Length(9)),
        (b"\xfe\x0bHW\x10\x03\x01\x02\x03\x04k", E::Length(11)),
        (b"\xfe\x11HW\x10\x03\x01\x02\x03\x04key-hin", E::Length(17)),
        (
            b"\xfe\x13HW\x10\x03\x01\x02\x03\x04key-hints",
            E::Length(19),
        ),
        (b"\xfe\x0aHW\x00\x03\x01\x02\x03\x04", E::Version(0)),
        (b"\xfe\x0aHW\x20\x03\x01\x02\x03\x04", E::Version(2)),
        (b"\xfe\x0aHW\x12\x03\x01\x02\x03\x04", E::Flags(2)),
        (b"\xfe\x0aHW\x10\x00\x01\x02\x03\x04", E::Interfaces(0)),
    ] {
        assert_eq!(SynOption::decode(bytes), Err(error), "{bytes:02x?}");
    }
}

#[test]
fn it_is_found_among_the_options_of_a_header() {
    let own = paper(2, 4711);
    let other = b"\xfe\x08\xf9\x89cook";
    let list = |parts: &[&[u8]]| parts.concat();
    let mss = b"\x02\x04\x05\xb4";
    let found = |options: Vec<u8>| SynOption::find(&options);
    let bytes = bytes(&own);
    assert_eq!(found(list(&[mss, &[1, 1], &bytes])), Ok(Some(own)));
    assert_eq!(found(list(&[other, &bytes])), Ok(Some(own)));
    // The first that can be read counts, and a broken one is told of only without that.
    let broken = b"\xfe\x0802471x";
    assert_eq!(found(list(&[broken, &bytes])), Ok(Some(own)));
    assert_eq!(
        found(list(&[mss, broken])),
        Err(SynOptionError::Digit(b'x'))
    );
    // Behind the end of the list, and where the list breaks off, there is nothing.
    assert_eq!(found(list(&[mss, &[0], &bytes])), Ok(None));
    assert_eq!(found(list(&[mss, &bytes[..7]])), Ok(None));
    assert_eq!(found(list(&[&[5, 1], &bytes])), Ok(None));
    assert_eq!(found(vec![1, 254]), Ok(None));
    assert_eq!(found(vec![]), Ok(None));
}

#[test]
fn an_echo_is_no_answer() {
    for connection in [0, 1, 4999, 5000, 9999] {
        let question = paper(2, connection);
        assert!(!question.is_answer_to(&question));
        assert!(paper(7, 9999 - connection).is_answer_to(&question));
    }
    let question = binary(false, 2, 5, None);
    assert!(!question.is_answer_to(&question));
    assert!(!binary(false, 2, 6, Some([1; 8])).is_answer_to(&question));
    assert!(!paper(2, 5).is_answer_to(&question));
    let answer = binary(false, 2, 5, Some([1; 8]));
    assert!(
        !answer.is_answer_to(&answer),
        "a SYN with a key hint asks nothing"
    );
}

#[test]
fn a_key_hint_is_shown_in_hexadecimal() {
    let hint = KeyHint([0, 1, 0x7f, 0xff, 4, 5, 6, 7]);
    assert_eq!(hint.to_string(), "00017fff04050607");
    assert_eq!(format!("{hint:?}"), "KeyHint(00017fff04050607)");
}

fn any_option() -> impl Strategy<Value = SynOption> {
    let in_paper = (1u8..100, 0u32..10_000).prop_map(|(interfaces, it)| paper(interfaces, it));
    let hint = proptest::option::of(any::<[u8; 8]>());
    let in_binary = (any::<bool>(), 1u8.., any::<u32>(), hint)
        .prop_map(|(bond, interfaces, it, hint)| binary(bond, interfaces, it, hint));
    prop_oneof![in_paper, in_binary]
}

proptest! {
    #[test]
    fn every_option_survives_the_round_trip(option in any_option(), padding in 0usize..20) {
        let encoded = bytes(&option);
        prop_assert_eq!(SynOption::decode(&encoded), Ok(option));
        let header = [&vec![1; padding], &encoded[..], &[0, 0]].concat();
        prop_assert_eq!(SynOption::find(&header), Ok(Some(option)));
        for end in 0..encoded.len() {
            prop_assert!(SynOption::decode(&encoded[..end]).is_err());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
        crate::fuzzing::fuzz_syn_option(&bytes);
    }

    #[test]
    fn nor_do_bytes_that_begin_as_an_option_does(
        form in prop_oneof![Just(*b"HW"), Just(*b"02")],
        length in 0u8..24,
        rest in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        let bytes = [&[SynOption::KIND, length][..], &form, &rest].concat();
        crate::fuzzing::fuzz_syn_option(&bytes);
    }
}
