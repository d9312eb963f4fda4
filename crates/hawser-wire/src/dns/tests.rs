use proptest::prelude::*;

use super::*;

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

/// The question of `query` with these records behind it: type, time to live and data.
fn answer(query: &[u8], flags: u16, records: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut out = query.to_vec();
    out[2..4].copy_from_slice(&(IS_ANSWER | flags).to_be_bytes());
    out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (kind, time, data) in records {
        // A pointer to the name of the question.
        out.extend_from_slice(&[0xc0, 12]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
        out.extend_from_slice(&time.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    }
    out
}

#[test]
fn a_question_has_the_bytes_that_servers_know() {
    let query = DnsQuestion::encode(0x1234, &name("Gw.example.org."), AddressRecord::Aaaa);
    let expected = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\
                     \x02gw\x07example\x03org\x00\x00\x1c\x00\x01";
    assert_eq!(query, expected);
    assert_eq!(DnsQuestion::decode(&query).unwrap().id, 0x1234);
}

#[test]
fn addresses_behind_an_alias_are_read_with_the_shortest_time() {
    let query = DnsQuestion::encode(7, &name("gw.example.org"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let records: [(u16, u32, &[u8]); 3] = [
        (5, 300, b"\x02ab\xc0\x0c"),
        (TYPE_A, 60, &[192, 0, 2, 1]),
        (TYPE_A, 90, &[192, 0, 2, 2]),
    ];
    let mut message = answer(&query, 0x0180, &records);
    // Servers may repeat the name as it was written elsewhere.
    message[13..15].copy_from_slice(b"GW");
    let read = question.decode_answer(&message).unwrap().unwrap();
    let expected: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
    assert_eq!(read.addresses, expected);
    assert_eq!(
        (read.code, read.seconds_to_live),
        (AnswerCode::Found, Some(60))
    );
    assert!(read.has_records && !read.is_truncated);
}

#[test]
fn what_may_lead_elsewhere_than_to_the_addresses_that_were_read_is_told() {
    let query = DnsQuestion::encode(7, &name("gw.example.org"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let leads_elsewhere = |message: &[u8]| {
        let answer = question.decode_answer(message).unwrap().unwrap();
        answer.may_lead_elsewhere
    };
    let address = |n: u8| [192, 0, 2, n];
    let all: Vec<[u8; 4]> = (0..=MAX_ADDRESSES as u8).map(address).collect();
    let all: Vec<(u16, u32, &[u8])> = all.iter().map(|it| (TYPE_A, 60, &it[..])).collect();
    let most = answer(&query, 0, &all[..MAX_ADDRESSES]);
    assert!(!leads_elsewhere(&most));
    assert!(leads_elsewhere(&answer(&query, 0, &all)), "one too many");
    let alias: (u16, u32, &[u8]) = (5, 300, b"\x02ab\xc0\x0c");
    let one = answer(&query, 0, &[alias, all[0], all[0]]);
    assert!(!leads_elsewhere(&one));
    for kind in [TYPE_SVCB, TYPE_HTTPS] {
        assert!(leads_elsewhere(&answer(
            &query,
            0,
            &[all[0], (kind, 60, b"")]
        )));
    }
    assert!(leads_elsewhere(&answer(&query, 0, &[(TYPE_A, 60, b"123")])));
    let mut chaos = one;
    let class = query.len() + 2 + 2 + 1;
    assert_eq!(chaos[class], 1);
    chaos[class] = 3;
    assert!(leads_elsewhere(&chaos), "of another class");
}

#[test]
fn every_address_of_an_answer_is_told_hints_as_well() {
    let query = DnsQuestion::encode(7, &name("gw.example.org"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let read = |records: &[(u16, u32, &[u8])]| {
        let message = answer(&query, 0, records);
        question.decode_answer(&message).unwrap().unwrap()
    };
    let mut all: Vec<[u8; 4]> = (0..MAX_ADDRESSES as u8).map(|n| [192, 0, 2, n]).collect();
    all.push([127, 0, 0, 1]);
    let records: Vec<(u16, u32, &[u8])> = all.iter().map(|it| (TYPE_A, 60, &it[..])).collect();
    let many = read(&records);
    let expected: Vec<IpAddr> = all.iter().map(|it| IpAddr::from(*it)).collect();
    assert_eq!(many.told, expected);
    assert!(!many.has_unread);
    // Priority, the name itself, and what a server speaks (key 1), before the hints.
    let mut https = b"\0\x01\0\0\x01\0\x03\x02h2\0\x04\0\x08".to_vec();
    https.extend([192, 0, 2, 7, 127, 0, 0, 1]);
    https.extend(b"\0\x06\0\x10");
    https.extend(std::net::Ipv6Addr::LOCALHOST.octets());
    for kind in [TYPE_SVCB, TYPE_HTTPS] {
        let hinted = read(&[(kind, 60, &https)]);
        let expected: [IpAddr; 3] = ["192.0.2.7", "127.0.0.1", "::1"].map(|it| it.parse().unwrap());
        assert_eq!(hinted.told, expected);
        assert_eq!((hinted.addresses, hinted.has_unread), (vec![], false));
    }
    for nonsense in [&https[..https.len() - 1], b"", b"\0\x01\0\0\x04\0\x03abc"] {
        let read = read(&[(TYPE_HTTPS, 60, nonsense)]);
        assert!(read.has_unread, "{nonsense:?}");
    }
    assert!(read(&[(TYPE_A, 60, b"12345678")]).has_unread);
    assert!(read(&[(TYPE_A, 60, b"")]).has_unread);
}

#[test]
fn answers_to_other_questions_are_not_answers() {
    let query = DnsQuestion::encode(7, &name("a.example"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    for other in [
        DnsQuestion::encode(8, &name("a.example"), AddressRecord::A),
        DnsQuestion::encode(7, &name("b.example"), AddressRecord::A),
        DnsQuestion::encode(7, &name("a.example"), AddressRecord::Aaaa),
    ] {
        assert_eq!(question.decode_answer(&answer(&other, 0, &[])), Ok(None));
    }
    assert_eq!(question.decode_answer(&query), Err(DnsError::Kind));
    assert_eq!(
        DnsQuestion::decode(&answer(&query, 0, &[])),
        Err(DnsError::Kind)
    );
}

#[test]
fn verdicts_are_told_apart() {
    let query = DnsQuestion::encode(7, &name("a.example"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let code = |flags| {
        question
            .decode_answer(&answer(&query, flags, &[]))
            .unwrap()
            .unwrap()
            .code
    };
    assert_eq!(code(0), AnswerCode::Found);
    assert_eq!(code(3), AnswerCode::NoSuchName);
    assert_eq!(code(2), AnswerCode::Failed(2));
    // Without the question, as servers answer that could not read it.
    let refused = b"\x00\x07\x80\x01\x00\x00\x00\x00\x00\x00\x00\x00";
    let refused = question.decode_answer(refused).unwrap().unwrap();
    assert_eq!(refused.code, AnswerCode::Failed(1));
}

#[test]
fn a_cut_answer_says_that_it_is_cut() {
    let query = DnsQuestion::encode(7, &name("a.example"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let mut message = answer(&query, TRUNCATED, &[(TYPE_A, 60, &[192, 0, 2, 1])]);
    message.pop();
    assert!(
        question
            .decode_answer(&message)
            .unwrap()
            .unwrap()
            .is_truncated
    );
    message[2..4].copy_from_slice(&IS_ANSWER.to_be_bytes());
    assert_eq!(question.decode_answer(&message), Err(DnsError::Truncated));
}

#[test]
fn names_end() {
    let mut message = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00".to_vec();
    message.extend_from_slice(&[1, b'a'].repeat(200));
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    assert_eq!(DnsQuestion::decode(&message), Err(DnsError::Name));
    message[12] = 0x80;
    assert_eq!(DnsQuestion::decode(&message), Err(DnsError::Name));
}

#[test]
fn questions_tell_what_is_asked_for() {
    let query = DnsQuestion::encode(7, &name("Gw.Example.org."), AddressRecord::A);
    let mut question = DnsQuestion::decode(&query).unwrap();
    assert_eq!(question.name(), "gw.example.org");
    assert!(question.is_recursive && question.is_ordinary());
    let end = question.question.len() - 4;
    for (kind, class) in [(TYPE_AXFR, 1), (TYPE_IXFR, 1), (TYPE_OPT, 1), (16, 3)] {
        question.question[end..end + 2].copy_from_slice(&u16::to_be_bytes(kind));
        question.question[end + 2..].copy_from_slice(&u16::to_be_bytes(class));
        assert!(!question.is_ordinary(), "{kind} {class}");
    }
    let mut authoritative = query;
    authoritative[2] = 0;
    let question = DnsQuestion::decode(&authoritative).unwrap();
    assert!(!question.is_recursive);
}

#[test]
fn a_datagram_has_what_the_asker_takes() {
    let mut query = DnsQuestion::encode(7, &name("a.example"), AddressRecord::A);
    assert_eq!(datagram_limit(&query), 512);
    query[11] = 1;
    assert_eq!(datagram_limit(&query), 512, "the record is missing");
    let plain = query.len();
    query.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
    assert_eq!(datagram_limit(&query), 1232);
    query[plain + 3..plain + 5].copy_from_slice(&100_u16.to_be_bytes());
    assert_eq!(datagram_limit(&query), 512, "less is not allowed");
}

#[test]
fn an_answer_that_is_cut_keeps_its_question() {
    let query = DnsQuestion::encode(7, &name("a.example"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let whole = answer(&query, 0x0080, &[(TYPE_A, 60, &[192, 0, 2, 1])]);
    let cut = cut(&whole);
    assert_eq!(cut.len(), query.len());
    let read = question.decode_answer(&cut).unwrap().unwrap();
    assert!(read.is_truncated && !read.has_records);
    assert_eq!(super::cut(b"\0\0"), b"\0\0");
}

#[test]
fn a_failure_answers_its_question() {
    let mut query = DnsQuestion::encode(7, &name("a.example"), AddressRecord::A);
    let question = DnsQuestion::decode(&query).unwrap();
    let end = query.len();
    query[11] = 1;
    query.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
    let failure = failure(&query).unwrap();
    assert_eq!(failure.len(), end);
    let read = question.decode_answer(&failure).unwrap().unwrap();
    assert_eq!(read.code, AnswerCode::Failed(2));
    query[2] |= 0x28;
    assert_eq!(super::failure(&query), None);
    assert_eq!(super::failure(b"\0\0"), None);
}

proptest! {
    #[test]
    fn a_question_that_was_written_is_read_and_its_answer_too(
        id: u16,
        labels in prop::collection::vec("[a-z][a-z0-9]{0,20}", 1..6),
        addresses in prop::collection::vec(any::<[u8; 16]>(), 0..40),
    ) {
        let name = name(&labels.join("."));
        let query = DnsQuestion::encode(id, &name, AddressRecord::Aaaa);
        let question = DnsQuestion::decode(&query).unwrap();
        let records: Vec<(u16, u32, &[u8])> =
            addresses.iter().map(|it| (TYPE_AAAA, 9, &it[..])).collect();
        let read = question.decode_answer(&answer(&query, 0, &records)).unwrap().unwrap();
        prop_assert_eq!(read.has_records, !addresses.is_empty());
        prop_assert!(read.addresses.len() <= MAX_ADDRESSES);
        for (read, sent) in read.addresses.iter().zip(&addresses) {
            prop_assert_eq!(*read, IpAddr::from(*sent));
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        crate::fuzzing::fuzz_dns(&bytes);
    }
}
