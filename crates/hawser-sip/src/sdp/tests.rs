use proptest::prelude::*;

use super::*;
use crate::fields::Q;

const CARRIER: Carrier<'_> = Carrier {
    call_id: "1@a",
    from: "sip:alice@example.org",
    to: "sip:bob@example.org",
};

fn description() -> Description {
    let candidate = |address: &str, kind| Candidate {
        foundation: "1".to_owned(),
        priority: 2_130_706_431,
        address: address.parse().unwrap(),
        kind,
        related: None,
        share: Q::from_thousandths(750).ok(),
    };
    let mut reflexive = candidate("203.0.113.9:40000", CandidateKind::ServerReflexive);
    reflexive.related = Some("192.0.2.1:4433".parse().unwrap());
    reflexive.share = None;
    Description {
        session: 17,
        version: 2,
        key: vec![1, 2, 3],
        candidates: vec![
            candidate("192.0.2.1:4433", CandidateKind::Host),
            candidate("[2001:db8::1]:4433", CandidateKind::Relayed),
            reflexive,
        ],
    }
}

#[test]
fn a_description_is_what_was_signed() {
    let sent = description();
    let bytes = sent.signed(b"signature");
    let read = Signed::parse(&bytes).unwrap();
    assert_eq!(read.description, sent);
    assert_eq!(read.signature, b"signature");
    assert_eq!(read.to_verify(&CARRIER), sent.to_sign(&CARRIER));
    let others = [
        Carrier {
            call_id: "2@a",
            ..CARRIER
        },
        Carrier {
            from: "sip:eve@example.org",
            ..CARRIER
        },
        Carrier {
            to: "sip:eve@example.org",
            ..CARRIER
        },
        // Bytes moved from one part into the next give another signature.
        Carrier {
            call_id: "1@as",
            from: "ip:alice@example.org",
            ..CARRIER
        },
    ];
    for other in others {
        assert_ne!(read.to_verify(&other), sent.to_sign(&CARRIER));
    }
}

#[test]
fn a_description_that_was_changed_is_not_what_was_signed() {
    let sent = description();
    let text = String::from_utf8(sent.signed(b"s").to_vec()).unwrap();
    let added = text.replace("a=hawser-sig", "a=unknown\r\na=hawser-sig");
    let read = Signed::parse(added.as_bytes()).unwrap();
    assert_eq!(read.description, sent);
    assert_ne!(read.to_verify(&CARRIER), sent.to_sign(&CARRIER));
}

#[test]
fn what_is_no_description_is_refused() {
    let text = String::from_utf8(description().signed(b"s").to_vec()).unwrap();
    for (from, to) in [
        ("v=0", "v=1"),
        ("o=hawser 17", "o=hawser -17"),
        ("o=hawser 17 2", "o=hawser 17"),
        ("s=-\r\n", ""),
        ("UDP hawser", "UDP other"),
        ("a=hawser-key:AQID\r\n", ""),
        (
            "a=hawser-key:AQID",
            "a=hawser-key:AQID\r\na=hawser-key:AQID",
        ),
        ("a=hawser-key:AQID", "a=hawser-key:?"),
        ("a=hawser-key:AQID", "b=AS:1"),
        ("a=hawser-signature:", "a=other:"),
        ("a=hawser-key", "a=hawser-signature:AA==\r\na=hawser-key"),
        ("192.0.2.1 4433", "host.example 4433"),
        ("192.0.2.1 4433", "192.0.2.1 65536"),
        ("1 1 UDP", "1 2 UDP"),
        ("1 1 UDP", "1 1 TCP"),
        ("1 1 UDP", "1  1 UDP"),
        ("2130706431", "2147483648"),
        ("2130706431", "0"),
        ("typ host", "typ other"),
        ("typ host", "typ"),
        ("hawser-share 750", "hawser-share 1001"),
        ("hawser-share 750", "hawser-share"),
        (" rport 4433", ""),
        ("raddr 192.0.2.1 ", ""),
        ("\r\n", "\n"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from} is not there");
        assert!(Signed::parse(changed.as_bytes()).is_err(), "{from} {to}");
    }
    let mut many = description();
    many.candidates = vec![many.candidates[0].clone(); 33];
    assert_eq!(
        Signed::parse(&many.signed(b"")),
        Err(SdpFault::TooManyCandidates)
    );
    let long = vec![b'x'; 20_000];
    assert_eq!(Signed::parse(&long), Err(SdpFault::TooLong(20_000)));
}

#[test]
fn attributes_of_candidates_that_are_not_known_are_passed_over() {
    let text = String::from_utf8(description().signed(b"s").to_vec()).unwrap();
    let added = text.replace("typ host", "typ host generation 0 network-cost 10");
    assert_eq!(
        Signed::parse(added.as_bytes()).unwrap().description,
        description()
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Signed::parse(&bytes);
    }

    #[test]
    fn no_change_makes_the_reader_panic(
        place in 0_usize..400,
        bytes in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut text = description().signed(b"s").to_vec();
        let place = place.min(text.len());
        text.splice(place..(place + 1).min(text.len()), bytes);
        if let Ok(read) = Signed::parse(&text) {
            let again = Signed::parse(&read.description.signed(&read.signature)).unwrap();
            prop_assert_eq!(again.description, read.description);
        }
    }
}
