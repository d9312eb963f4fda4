use super::*;

fn uri(text: &str) -> Uri {
    text.parse()
        .unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

#[test]
fn a_uri_is_written_as_it_was_read() {
    for text in [
        "sip:alice@atlanta.com",
        "sip:alice:secretword@atlanta.com;transport=tcp",
        "sips:alice@atlanta.com?subject=project%20x&priority=urgent",
        "sip:+1-212-555-1212:1234@gateway.com;user=phone",
        "sip:atlanta.com;method=REGISTER?to=alice%40atlanta.com",
        "sip:user;par=u%40example.net@example.com",
        "sip:[2001:db8::10]:5070;lr",
        "sip:null-%00-null@example.com",
        "tel:+15551234567",
        "nobodyKnowsThisScheme:totallyopaquecontent"
            .to_lowercase()
            .as_str(),
    ] {
        assert_eq!(uri(text).to_string(), text);
    }
}

#[test]
fn what_is_no_uri_is_refused() {
    for text in [
        "",
        "sip",
        "sip:",
        "1sip:a",
        "sip:@a",
        "sip:a@",
        "sip:a b@c",
        "sip:a@b c",
        "sip:a@b:",
        "sip:a@b:65536",
        "sip:a@b:-1",
        "sip:a@b;",
        "sip:a@b;x=",
        "sip:a@b;x;X=1",
        "sip:a@b?",
        "sip:a@b?x",
        "sip:a%4@b",
        "sip:a%zz@b",
        "sip:a@[::1",
        "sip:a@[::g]",
        "sip:::1",
        "sip:ü@b",
        "sip:a@b>",
        "tel:",
        "tel:a b",
        "sip:a@b@c",
        "sip:a%é0@b",
    ] {
        assert!(text.parse::<Uri>().is_err(), "{text}");
    }
}

/// The pairs of RFC 3261 §19.1.4.
#[test]
fn uris_are_compared_as_the_standard_says() {
    for (one, two) in [
        (
            "sip:%61lice@atlanta.com;transport=TCP",
            "sip:alice@AtLanTa.CoM;Transport=tcp",
        ),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
    ] {
        assert!(uri(one).is_equivalent(&uri(two)), "{one} {two}");
        assert!(uri(two).is_equivalent(&uri(one)), "{two} {one}");
    }
    for (one, two) in [
        (
            "SIP:ALICE@AtLanTa.CoM;Transport=udp",
            "sip:alice@AtLanTa.CoM;Transport=UDP",
        ),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        (
            "sip:bob@biloxi.com",
            "sip:bob@biloxi.com:6000;transport=tcp",
        ),
        (
            "sip:carol@chicago.com",
            "sip:carol@chicago.com?Subject=next%20meeting",
        ),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        (
            "sip:carol@chicago.com;security=on",
            "sip:carol@chicago.com;security=off",
        ),
        ("sip:a@b", "sips:a@b"),
        ("sip:a%3Bx@b", "sip:a;x@b"),
    ] {
        assert!(!uri(one).is_equivalent(&uri(two)), "{one} {two}");
    }
}

#[test]
fn an_address_of_record_has_one_form() {
    let of = |text| uri(text).as_sip().unwrap().address_of_record();
    let expected = Some("sip:alice@example.org".to_owned());
    assert_eq!(of("sip:%61lice@Example.ORG;transport=tcp"), expected);
    assert_eq!(of("sip:alice:pw@example.org.?a=b"), expected);
    assert_eq!(of("sip:example.org"), None);
    assert_eq!(of("sip:a%3bb@x"), Some("sip:a%3Bb@x".to_owned()));
}

#[test]
fn escapes_of_control_characters_are_no_name() {
    let user = |text| uri(text).as_sip().unwrap().user();
    assert_eq!(user("sip:null-%00-null@example.com"), None);
    assert_eq!(user("sip:%c3%bc@example.com"), Some("ü".to_owned()));
    assert_eq!(user("sip:%ff@example.com"), None);
}
