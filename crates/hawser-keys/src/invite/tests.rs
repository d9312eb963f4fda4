use std::os::unix::fs::PermissionsExt as _;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::host_port::tests::any_host_port;
use crate::identity::PublicKey;
use crate::unix_time::UnixTime;

fn sample() -> Invite {
    let addresses = ["gw.example.org:7443", "[2001:db8::1]:7443", "192.0.2.1:443"];
    Invite::new(
        PublicKey::from_bytes([1; 32]),
        addresses.iter().map(|a| a.parse().unwrap()).collect(),
        Zeroizing::new([2; 32]),
        UnixTime::from_secs(1_700_000_000),
    )
    .unwrap()
}

fn any_invite() -> impl Strategy<Value = Invite> {
    (
        any::<[u8; 32]>(),
        vec(any_host_port(), 1..=MAX_ADDRESSES),
        any::<[u8; 32]>(),
        any::<u64>(),
    )
        .prop_map(|(gateway, addresses, secret, expires)| {
            let gateway = PublicKey::from_bytes(gateway);
            let (secret, expires) = (Zeroizing::new(secret), UnixTime::from_secs(expires));
            Invite::new(gateway, addresses, secret, expires).unwrap()
        })
}

fn error(text: &str) -> String {
    text.parse::<Invite>().unwrap_err().to_string()
}

#[test]
fn an_invite_has_this_golden_text() {
    let text = sample().to_string();
    assert_eq!(
        text,
        "hawser://gw.example.org:7443/#AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAgICAgICAgICAgIC\
         AgICAgICAgICAgICAgICAgICAgIAAAAAZVPxAAIGIAENuAAAAAAAAAAAAAAAAR0TBMAAAgEBuyPPAOk"
    );
    assert_eq!(text.parse::<Invite>().unwrap(), sample());
}

#[test]
fn blanks_around_and_a_missing_slash_do_no_harm() {
    let text = sample().to_string();
    assert_eq!(format!("  {text}\n").parse::<Invite>().unwrap(), sample());
    assert_eq!(text.replace("/#", "#").parse::<Invite>().unwrap(), sample());
}

#[test]
fn the_address_may_be_replaced_by_hand() {
    let text = sample()
        .to_string()
        .replace("gw.example.org", "203.0.113.9");
    let invite: Invite = text.parse().unwrap();
    assert_eq!(invite.addresses()[0].to_string(), "203.0.113.9:7443");
    assert_eq!(
        invite.enrolment_identity().public(),
        sample().enrolment_identity().public()
    );
}

#[test]
fn the_enrolment_identity_follows_from_the_secret_alone() {
    let mut other = sample();
    other.gateway = PublicKey::from_bytes([9; 32]);
    assert_eq!(
        other.enrolment_identity().public(),
        sample().enrolment_identity().public()
    );
    other.secret = Zeroizing::new([3; 32]);
    assert_ne!(
        other.enrolment_identity().public(),
        sample().enrolment_identity().public()
    );
    // Golden, since two releases must agree on it.
    let key = sample().enrolment_identity().public().to_string();
    assert_eq!(key, "gEIpic_wHInqlz5prsN-uLFG07lo_mmCc_XMEo4RogU");
}

#[test]
fn an_error_says_what_is_wrong_and_never_shows_the_secret() {
    let text = sample().to_string();
    let (front, fragment) = text.split_once('#').unwrap();
    assert_eq!(
        error("http://gw:1/#x"),
        r#"an invite begins with hawser://, got "http://gw:1/""#
    );
    assert!(error(front).contains("ends before its '#'"));
    assert!(error(&text[..text.len() - 8]).contains("was all of it copied?"));
    assert!(error(&text[..text.len() - 1]).contains("was all of it copied?"));
    assert!(error(&format!("hawser://gw/#{fragment}")).contains("got no port"));
    assert!(error(&format!("{front}#{fragment}=")).contains("no padding"));
    assert!(error(&text.replace("#AQ", "#Ag")).contains("version 2"));
    assert!(error(&format!("{front}#{}", "A".repeat(7000))).contains("at most"));
    assert!(error(&format!("x{text}")).len() < 100);
}

#[test]
fn debug_hides_the_secret() {
    let shown = format!("{:?}", sample());
    assert!(
        shown.contains("gw.example.org") && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn no_address_and_seventeen_are_refused() {
    let address: HostPort = "gw:1".parse().unwrap();
    for count in [0, 17] {
        let addresses = vec![address.clone(); count];
        let invite = Invite::generate(
            PublicKey::from_bytes([0; 32]),
            addresses,
            UnixTime::from_secs(0),
        );
        assert!(matches!(invite, Err(InviteError::AddressCount { got }) if got == count));
    }
}

#[test]
fn an_invite_expires_at_its_second() {
    let expires = sample().expires();
    assert!(!sample().is_expired(UnixTime::from_secs(expires.as_secs() - 1)));
    assert!(sample().is_expired(expires));
}

#[test]
fn a_reference_is_the_invite_or_a_private_file_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("invite");
    sample().write_file(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        read_reference(&format!("@{}", path.display())).unwrap(),
        sample()
    );
    assert_eq!(read_reference(&sample().to_line()).unwrap(), sample());
    let error = read_reference("@/nowhere/at/all").unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all"), "{error}");
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(invite in any_invite()) {
        let text = invite.to_string();
        prop_assert!(!text.contains(char::is_whitespace));
        prop_assert_eq!(text.parse::<Invite>().unwrap(), invite);
    }

    #[test]
    fn a_flipped_character_is_noticed(at in 0_usize..150, to in "[A-Za-z0-9_-]") {
        let text = sample().to_string();
        let start = text.find('#').unwrap() + 1;
        let at = start + at % (text.len() - start);
        let mut changed = text.clone();
        changed.replace_range(at..=at, &to);
        prop_assert!(changed == text || changed.parse::<Invite>().is_err());
    }

    #[test]
    fn any_bytes_decode_without_panic(mut bytes in vec(any::<u8>(), 0..400), checked: bool) {
        if checked {
            // Sets a valid version and check sum, to reach the parser behind them.
            if let Some(version) = bytes.first_mut() {
                *version = 1;
            }
            let hash = ring::digest::digest(&ring::digest::SHA256, &bytes);
            bytes.extend_from_slice(&hash.as_ref()[..4]);
        }
        let _ = codec::decode(&bytes, "gw:1".parse().unwrap());
    }

    #[test]
    fn any_text_parses_without_panic(text in "(hawser://)?.{0,200}") {
        let _ = text.parse::<Invite>();
    }
}
