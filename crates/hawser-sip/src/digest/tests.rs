use std::time::Duration;

use hawser_types::Instant;

use super::*;
use crate::message::Method;
use crate::uri::Uri;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const LIFETIME: Duration = Duration::from_secs(60);

fn verifier() -> Verifier {
    Verifier::new(
        "example.org",
        &[7; 32],
        LIFETIME,
        &[Algorithm::Sha256, Algorithm::Md5],
    )
}

fn uri() -> Uri {
    "sip:example.org".parse().unwrap()
}

fn secret(algorithm: Algorithm) -> Secret {
    Secret::new(algorithm, "alice", "example.org", "pass \"word")
}

fn answerer() -> Answerer {
    Answerer::new("alice", "pass \"word", Algorithm::Md5)
}

/// Examples of RFC 7616 §3.9.1, which use HTTP's method.
#[test]
fn proofs_are_those_of_the_standard() {
    for (algorithm, expected) in [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (
            Algorithm::Sha256,
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        ),
    ] {
        let realm = "http-auth@example.org";
        let credentials = Credentials {
            username: "Mufasa".to_owned(),
            realm: realm.to_owned(),
            nonce: "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v".to_owned(),
            uri: "/dir/index.html".to_owned(),
            response: String::new(),
            algorithm,
            opaque: None,
            counted: Some(Counted {
                count: 1,
                cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ".to_owned(),
            }),
        };
        let secret = Secret::new(algorithm, "Mufasa", realm, "Circle of Life");
        let method = Method::Other("GET".to_owned());
        assert_eq!(verify::response(&credentials, &secret, &method), expected);
    }
}

#[test]
fn the_server_accepts_the_clients_answer() {
    let (mut verifier, mut answerer) = (verifier(), answerer());
    let challenges = verifier.challenges(NOW, b"192.0.2.1", false);
    let read: Vec<_> = challenges
        .iter()
        .map(|challenge| Challenge::parse(&challenge.to_string()).unwrap())
        .collect();
    assert_eq!(read, challenges);
    answerer.handle_challenges(&read).unwrap();
    for count in 1..4 {
        let sent = answerer
            .credentials(&Method::Register, "sip:example.org", "c")
            .unwrap();
        let read = Credentials::parse(&sent.to_string()).unwrap();
        assert_eq!(read, sent);
        assert_eq!(read.algorithm, Algorithm::Sha256);
        assert_eq!(
            read.counted.as_ref().map(|counted| counted.count),
            Some(count)
        );
        let request = (&Method::Register, &uri());
        let secret = secret(Algorithm::Sha256);
        assert_eq!(
            verifier.verify(NOW, b"192.0.2.1", &read, &secret, request),
            Ok(())
        );
    }
}

#[test]
fn a_proof_counts_for_its_request_sender_and_time_only() {
    let (mut verifier, mut answerer) = (verifier(), answerer());
    let challenges = verifier.challenges(NOW, b"a", false);
    answerer.handle_challenges(&challenges).unwrap();
    let good = answerer
        .credentials(&Method::Register, "sip:example.org", "c")
        .unwrap();
    let secret = secret(Algorithm::Sha256);
    let mut verify = |now, context: &[u8], credentials: &Credentials, method: Method, uri: &str| {
        let uri = uri.parse().unwrap();
        verifier.verify(now, context, credentials, &secret, (&method, &uri))
    };
    let register = Method::Register;
    let own = "sip:example.org";
    assert_eq!(verify(NOW, b"a", &good, register.clone(), own), Ok(()));
    assert_eq!(
        verify(NOW, b"b", &good, register.clone(), own),
        Err(AuthFault::Nonce)
    );
    assert_eq!(
        verify(NOW, b"a", &good, Method::Invite, own),
        Err(AuthFault::Wrong)
    );
    assert_eq!(
        verify(NOW, b"a", &good, register.clone(), "sip:other"),
        Err(AuthFault::Uri)
    );
    let late = NOW + LIFETIME;
    assert_eq!(
        verify(late, b"a", &good, register.clone(), own),
        Err(AuthFault::Stale)
    );
    type Change = fn(&mut Credentials);
    let changes: [(Change, AuthFault); 7] = [
        (|c| c.response.replace_range(..1, "g"), AuthFault::Wrong),
        (|c| c.response.clear(), AuthFault::Wrong),
        (|c| c.counted.as_mut().unwrap().count += 1, AuthFault::Wrong),
        (|_| {}, AuthFault::Stale),
        (|c| c.realm.push('x'), AuthFault::Realm),
        (|c| c.algorithm = Algorithm::Md5, AuthFault::Algorithm),
        (|c| c.counted = None, AuthFault::NotCounted),
    ];
    for (change, expected) in changes {
        let mut changed = good.clone();
        change(&mut changed);
        let outcome = verify(NOW, b"a", &changed, register.clone(), own);
        assert_eq!(outcome, Err(expected));
    }
    for nonce in ["", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let mut forged = good.clone();
        forged.nonce = nonce.to_owned();
        assert_eq!(
            verify(NOW, b"a", &forged, register.clone(), own),
            Err(AuthFault::Nonce)
        );
    }
}

#[test]
fn a_password_that_was_refused_is_not_tried_again() {
    let (mut verifier, mut answerer) = (verifier(), answerer());
    let mut challenge = |is_stale| verifier.challenges(NOW, b"a", is_stale);
    answerer.handle_challenges(&challenge(false)).unwrap();
    answerer
        .credentials(&Method::Register, "sip:a", "c")
        .unwrap();
    answerer.handle_challenges(&challenge(true)).unwrap();
    answerer
        .credentials(&Method::Register, "sip:a", "c")
        .unwrap();
    let refused = answerer.handle_challenges(&challenge(false));
    assert_eq!(refused, Err(ChallengeFault::Refused));
}

#[test]
fn a_server_that_calls_every_nonce_too_old_is_not_believed_for_ever() {
    let (mut verifier, mut answerer) = (verifier(), answerer());
    let outcomes = [false, true, true, true].map(|is_stale| {
        let outcome = answerer.handle_challenges(&verifier.challenges(NOW, b"a", is_stale));
        answerer
            .credentials(&Method::Register, "sip:a", "c")
            .unwrap();
        outcome
    });
    assert_eq!(
        outcomes,
        [Ok(()), Ok(()), Ok(()), Err(ChallengeFault::Refused)]
    );
}

#[test]
fn a_server_that_forgot_its_nonces_may_challenge_again_after_a_success() {
    let (mut verifier, mut answerer) = (verifier(), answerer());
    for _ in 0..3 {
        let challenges = verifier.challenges(NOW, b"a", false);
        answerer.handle_challenges(&challenges).unwrap();
        answerer
            .credentials(&Method::Register, "sip:a", "c")
            .unwrap();
        answerer.handle_success();
    }
}

#[test]
fn the_weakest_algorithm_can_be_set_at_both_ends() {
    let mut strict = Verifier::new("r", &[1; 32], LIFETIME, &[Algorithm::Sha256]);
    let challenges = strict.challenges(NOW, b"", false);
    assert_eq!(challenges.len(), 1);
    let old = Challenge::parse("Digest realm=\"r\", nonce=\"n\"").unwrap();
    assert_eq!((old.algorithm, old.has_qop), (Algorithm::Md5, false));
    let mut answerer = Answerer::new("a", "p", Algorithm::Sha256);
    let outcome = answerer.handle_challenges(std::slice::from_ref(&old));
    assert_eq!(outcome, Err(ChallengeFault::NoneFits));
    // RFC 2069: requests are not counted.
    let mut answerer = Answerer::new("a", "p", Algorithm::Md5);
    answerer.handle_challenges(&[old]).unwrap();
    let proof = answerer
        .credentials(&Method::Register, "sip:a", "c")
        .unwrap();
    assert!(!proof.to_string().contains("qop"));
}

#[test]
fn what_is_no_challenge_is_refused_with_the_reason() {
    use DigestFault::{Missing, Qop, Scheme};
    let of = |text| Challenge::parse(text).unwrap_err();
    assert_eq!(of("Basic realm=\"a\""), Scheme("Basic".to_owned()));
    assert_eq!(
        of("NoOneKnowsThisScheme opaque-data=here"),
        Scheme("NoOneKnowsThisScheme".into())
    );
    assert_eq!(of("Digest realm=\"a\""), Missing("nonce"));
    assert_eq!(
        of("Digest realm=a, nonce=b, qop=\"auth-int\""),
        Qop("auth-int".to_owned())
    );
    let algorithm = DigestFault::Algorithm("MD5-sess".to_owned());
    assert_eq!(of("Digest realm=a, nonce=b, algorithm=MD5-sess"), algorithm);
    for text in [
        "",
        "Digest",
        "Digest ",
        "Digest a",
        "Digest a=",
        "Digest a=b,",
        "Digest a=b c",
        "Digest a=b, A=c",
        "Digest a=\"b",
    ] {
        assert!(
            matches!(Challenge::parse(text), Err(DigestFault::Syntax(_))),
            "{text}"
        );
    }
    assert!(
        Credentials::parse(
            "Digest username=a, realm=b, nonce=c, uri=\"d\", response=e, \
        qop=auth, nc=1, cnonce=f"
        )
        .is_err()
    );
}
