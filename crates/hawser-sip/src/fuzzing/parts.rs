//! Parts of messages: a parsed part is written, and must parse as the same.

use crate::digest::{Challenge, Credentials};
use crate::reginfo::{RegInfo, Watched};
use crate::sdp::Signed;
use crate::uri::Uri;

/// Parses a URI, a challenge, credentials, a document of bindings, or a description, as the first
/// byte selects.
pub fn fuzz_parts(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            if let Ok(text) = std::str::from_utf8(data) {
                fuzz_text(text);
            }
        }
        1 => fuzz_document(data),
        _ => fuzz_description(data),
    }
}

fn fuzz_text(text: &str) {
    if let Ok(uri) = text.parse::<Uri>() {
        let again: Uri = uri.to_string().parse().expect("it was written");
        assert_eq!(again, uri);
        assert!(uri.is_equivalent(&again));
        let address = uri.as_sip().and_then(|uri| uri.address_of_record());
        if let Some(address) = address {
            let again: Uri = address.parse().expect("an address of record is a URI");
            let again = again.as_sip().and_then(|uri| uri.address_of_record());
            assert_eq!(again, Some(address));
        }
    }
    if let Ok(challenge) = Challenge::parse(text) {
        assert_eq!(Challenge::parse(&challenge.to_string()), Ok(challenge));
    }
    if let Ok(credentials) = Credentials::parse(text) {
        assert_eq!(
            Credentials::parse(&credentials.to_string()),
            Ok(credentials)
        );
    }
}

fn fuzz_document(data: &[u8]) {
    let Ok(info) = RegInfo::parse(data) else {
        return;
    };
    let mut watched = Watched::default();
    let _ = watched.handle(&info);
    assert!(watched.contacts().len() <= 64);
    let written = info.to_string();
    let again = RegInfo::parse(written.as_bytes());
    // Control characters can't be written, and the written text may be longer.
    if let Ok(again) = again {
        assert_eq!(again.registrations.len(), info.registrations.len());
    }
}

fn fuzz_description(data: &[u8]) {
    let Ok(signed) = Signed::parse(data) else {
        return;
    };
    let written = signed.description.signed(&signed.signature);
    let again = Signed::parse(&written).expect("it was written");
    assert_eq!(again.description, signed.description);
    assert_eq!(again.signature, signed.signature);
}
