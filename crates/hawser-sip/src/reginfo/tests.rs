use proptest::prelude::*;

use super::*;

/// The example of RFC 3680 §5.
const EXAMPLE: &str = r#"<?xml version="1.0"?>
   <reginfo xmlns="urn:ietf:params:xml:ns:reginfo"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
                version="0" state="partial">
     <registration aor="sip:user@example.com" id="as9"
                   state="active">
       <contact id="76" state="active" event="registered"
                duration-registered="7322"
                q="0.8">
            <uri>sip:user@pc887.example.com</uri>
       </contact>
       <contact id="77" state="terminated" event="expired"
                duration-registered="3600"
                q="0.5">
            <uri>sip:user@university.edu</uri>
       </contact>
     </registration>
   </reginfo>
"#;

fn contact(id: &str, uri: &str, thousandths: u16) -> RegisteredContact {
    RegisteredContact {
        id: id.to_owned(),
        uri: uri.parse().unwrap(),
        is_active: true,
        event: "registered".to_owned(),
        q: Q::from_thousandths(thousandths).ok(),
        expires: Some(600),
    }
}

fn info(version: u32, is_full: bool, contacts: Vec<RegisteredContact>) -> RegInfo {
    RegInfo {
        version,
        is_full,
        registrations: vec![RegisteredAddress {
            address: "sip:a&b@example.org".to_owned(),
            id: "a\"<1>".to_owned(),
            contacts,
        }],
    }
}

#[test]
fn the_example_of_the_standard_is_read() {
    let read = RegInfo::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!((read.version, read.is_full), (0, false));
    let [registration] = &read.registrations[..] else {
        panic!("one address is registered");
    };
    let contacts: Vec<_> = registration
        .contacts
        .iter()
        .map(|c| {
            (
                c.id.as_str(),
                c.is_active,
                c.event.as_str(),
                c.q.unwrap().thousandths(),
            )
        })
        .collect();
    let expected = [
        ("76", true, "registered", 800),
        ("77", false, "expired", 500),
    ];
    assert_eq!(contacts, expected);
}

#[test]
fn what_is_written_is_read() {
    let contacts = vec![
        contact("1", "sip:a'b&c@example.org;x=y?a=b", 333),
        contact("2", "sip:[2001:db8::1]", 0),
    ];
    let written = info(7, true, contacts);
    assert_eq!(RegInfo::parse(written.to_string().as_bytes()), Ok(written));
}

#[test]
fn what_is_no_document_is_refused() {
    let long = vec![b' '; 70_000];
    assert_eq!(RegInfo::parse(&long), Err(RegInfoFault::TooLong(70_000)));
    for (from, to) in [
        (
            "<?xml version=\"1.0\"?>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]>",
        ),
        ("ns:reginfo\"", "ns:other\""),
        ("version=\"0\"", "version=\"-1\""),
        ("version=\"0\"", "version=\"4294967296\""),
        ("version=\"0\"", ""),
        ("state=\"partial\"", "state=\"some\""),
        ("state=\"terminated\"", "state=\"gone\""),
        ("aor=\"sip:user@example.com\"", ""),
        ("id=\"77\"", ""),
        ("q=\"0.8\"", "q=\"8\""),
        ("sip:user@pc887.example.com", "user"),
        ("<uri>sip:user@university.edu</uri>", ""),
        ("</reginfo>", ""),
    ] {
        let changed = EXAMPLE.replace(from, to);
        assert_ne!(changed, EXAMPLE, "{from} is not there");
        assert!(RegInfo::parse(changed.as_bytes()).is_err(), "{from} {to}");
    }
    let deep = "<a>".repeat(20_000);
    assert!(matches!(
        RegInfo::parse(deep.as_bytes()),
        Err(RegInfoFault::Xml(_))
    ));
    let many = vec![contact("1", "sip:a@b", 1); 65];
    let many = info(0, true, many).to_string();
    assert!(RegInfo::parse(many.as_bytes()).is_err());
}

#[test]
fn a_subscriber_knows_what_the_documents_say_together() {
    let mut watched = Watched::default();
    let ids = |watched: &Watched| -> Vec<String> {
        watched
            .contacts()
            .iter()
            .map(|contact| contact.id.clone())
            .collect()
    };
    let first = vec![
        contact("1", "sip:a@h1.example", 200),
        contact("2", "sip:a@h2.example", 800),
    ];
    assert_eq!(watched.handle(&info(0, true, first)), Ok(true));
    assert_eq!(ids(&watched), ["2", "1"]);
    let mut gone = contact("2", "sip:a@h2.example", 800);
    gone.is_active = false;
    let change = info(1, false, vec![gone, contact("3", "sip:a@h3.example", 100)]);
    assert_eq!(watched.handle(&change), Ok(true));
    assert_eq!(ids(&watched), ["1", "3"]);
    // The document is repeated, and an older one arrives late.
    assert_eq!(watched.handle(&change), Ok(false));
    assert_eq!(watched.handle(&info(0, true, vec![])), Ok(false));
    let after_a_gap = info(3, false, vec![contact("4", "sip:a@h4.example", 100)]);
    assert_eq!(watched.handle(&after_a_gap), Err(Gap(3)));
    assert_eq!(ids(&watched), ["1", "3"]);
    assert_eq!(watched.handle(&info(4, true, vec![])), Ok(true));
    assert_eq!(ids(&watched), [""; 0]);
    watched.restart();
    assert_eq!(
        watched.handle(&info(0, true, vec![contact("1", "sip:a@h1.example", 1)])),
        Ok(true)
    );
}

/// As Kamailio 5.6 does.
#[test]
fn everything_counts_also_when_each_document_has_version_0() {
    let mut watched = Watched::default();
    let told = [vec![], vec![contact("1", "sip:a@h1.example", 200)], vec![]];
    let outcomes = told.map(|contacts| watched.handle(&info(0, true, contacts)));
    assert_eq!(outcomes, [Ok(false), Ok(true), Ok(true)]);
}

#[test]
fn a_registrar_that_tells_of_ever_more_contacts_takes_no_memory() {
    let mut watched = Watched::default();
    watched.handle(&info(0, true, vec![])).unwrap();
    for version in 1..200 {
        let more = contact(&version.to_string(), "sip:a@b", 1);
        watched.handle(&info(version, false, vec![more])).unwrap();
    }
    assert_eq!(watched.contacts().len(), 64);
}

proptest! {
    #[test]
    fn no_change_of_a_document_makes_the_reader_panic(
        place in 0_usize..EXAMPLE.len(),
        length in 0_usize..40,
        bytes in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut text = EXAMPLE.as_bytes().to_vec();
        let end = (place + length).min(text.len());
        text.splice(place..end, bytes);
        if let Ok(read) = RegInfo::parse(&text) {
            let written = read.to_string();
            prop_assert!(RegInfo::parse(written.as_bytes()).is_ok(), "{}", written);
        }
    }
}
