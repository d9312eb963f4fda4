//! Replays the fuzzers' corpora and random compositions of messages, and checks memory use.

use std::fs;
use std::panic;
use std::path::Path;

use proptest::prelude::*;

use super::{MAX_MEMORY, fuzz_message, fuzz_parts, fuzz_server};

/// Reads every file of a fuzzer's corpus.
fn replay(name: &str, read: fn(&[u8])) {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = corpora.join(name);
    let mut files = 0;
    for input in fs::read_dir(&folder).unwrap() {
        let path = input.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let outcome = panic::catch_unwind(|| read(&bytes));
        assert!(outcome.is_ok(), "{}", path.display());
        files += 1;
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
}

#[test]
fn datagram_and_stream_agree_on_every_file_of_the_corpus() {
    replay("sip_message", fuzz_message);
}

#[test]
fn parts_are_written_as_they_are_read_and_servers_keep_their_bounds() {
    replay("sip_parts", fuzz_parts);
    replay("sip_server", play);
}

/// Plays a script and checks its peak memory use.
fn play(script: &[u8]) {
    let mut outcome = Ok(());
    // A panic must not leave the counter enabled.
    let counted = || outcome = panic::catch_unwind(|| fuzz_server(script));
    let used = allocation_counter::measure(counted).bytes_max;
    if let Err(panicked) = outcome {
        panic::resume_unwind(panicked);
    }
    assert!(used < MAX_MEMORY, "{used} bytes are used at once");
}

/// Parts of messages, valid and invalid, which random bytes hardly ever produce.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<&'static [u8]> = vec![
        b"OPTIONS sip:a@b SIP/2.0\r\n",
        b"SIP/2.0 200 OK\r\n",
        b"SIP/2.0 200\r\n",
        b"ACK sip:a@[::1]:1;x=y SIP/3.0\r\n",
        b"l: 0\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 4000\r\n",
        b"l: -1\r\n",
        b"Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\n",
        b"v: SIP/2.0/TCP [::1]:5060 , SIP/2.0/UDP h\r\n",
        b"From: \"a\\\"\\\x07\" <sip:a@b>;tag=1\r\n",
        b"t: c d <sip:c@d;lr?a=b>\r\n",
        b"i: 1@b\r\nCSeq: 1 OPTIONS\r\n",
        b"m: *\r\n",
        b"m: <sip:a@b>;q=0.5;expires=10,\r\n <sip:c@d>\r\n",
        b"X:\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"\0",
        b"\xff",
        b"body",
    ];
    prop_oneof![
        8 => proptest::sample::select(parts).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

/// Requests of a few users, mostly valid, each with the byte in front of it.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let methods = vec![
        "REGISTER",
        "SUBSCRIBE",
        "INVITE",
        "ACK",
        "CANCEL",
        "OPTIONS",
        "BYE",
    ];
    let extras = vec![
        "",
        "m: <sip:a@h1.example>;q=0.5\r\n",
        "m: <sip:a@h1.example>;expires=0, <sip:b@h2.example>;expires=100\r\n",
        "m: <sip:b@example.org>\r\n",
        "m: *\r\nExpires: 0\r\n",
        "m: <sip:a@h1.example>\r\nEvent: reg\r\nExpires: 90\r\n",
        "m: <sip:a@h1.example>\r\nEvent: reg\r\nExpires: 0\r\n",
        "Route: <sip:example.org;lr>\r\nm: <sip:x@y>;expires=7\r\n",
    ];
    (
        any::<u8>(),
        proptest::sample::select(methods),
        proptest::sample::select(extras),
        (0_u32..4, 0_u32..4, 0_u32..3, 0_u32..3),
    )
        .prop_map(|(first, method, extra, (branch, number, name, tag))| {
            let name = ["a", "b", "c"][name as usize];
            let tag = ["", ";tag=n1", ";tag=p"][tag as usize];
            let domain = "example.org";
            let target = match method {
                "REGISTER" => format!("sip:{domain}"),
                _ => format!("sip:{name}@{domain}"),
            };
            let text = format!(
                "{method} {target} SIP/2.0\r\nv: SIP/2.0/UDP h;branch=z9hG4bK{branch}\r\n\
                 f: <sip:{name}@{domain}>;tag=1\r\nt: <sip:{name}@{domain}>{tag}\r\n\
                 i: {name}\r\nCSeq: {number} {method}\r\n{extra}\r\n"
            );
            [vec![first], text.into_bytes()].concat()
        })
}

proptest! {
    #[test]
    fn datagram_and_stream_agree_on_whatever_is_put_together(
        piece in any::<u8>(),
        first in part(),
        is_request in any::<bool>(),
        head in proptest::collection::vec(part(), 0..5),
        body in proptest::collection::vec(part(), 0..3),
    ) {
        let mut input = vec![piece];
        // Other beginnings are refused at once.
        let begin: &[u8] = if is_request { b"OPTIONS sip:a@b SIP/2.0\r\n" } else { &first };
        input.extend_from_slice(begin);
        input.extend(head.concat());
        input.extend_from_slice(b"\r\n");
        input.extend(body.concat());
        let used = allocation_counter::measure(|| fuzz_message(&input)).bytes_max;
        prop_assert!(used < 1 << 20, "{} bytes are used at once", used);
    }

    #[test]
    fn no_datagrams_make_a_server_break_its_bounds(
        parts in proptest::collection::vec(request(), 0..20),
    ) {
        play(&parts.join(&0));
    }

    #[test]
    fn datagram_and_stream_agree_on_any_bytes(
        input in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        fuzz_message(&input);
    }
}
