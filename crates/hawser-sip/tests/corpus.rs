//! Replays the fuzzers' corpora, and messages put together at random, with an eye on memory.

use std::fs;
use std::panic;
use std::path::Path;

use hawser_sip::fuzzing::fuzz_message;
use proptest::prelude::*;

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

/// Parts of messages, right and wrong, which random bytes would hardly ever come to.
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

proptest! {
    #[test]
    fn datagram_and_stream_agree_on_whatever_is_put_together(
        piece in any::<u8>(),
        parts in proptest::collection::vec(part(), 0..20),
    ) {
        let mut input = vec![piece];
        input.extend(parts.concat());
        let used = allocation_counter::measure(|| fuzz_message(&input)).bytes_max;
        prop_assert!(used < 1 << 20, "{} bytes are used at once", used);
    }

    #[test]
    fn datagram_and_stream_agree_on_any_bytes(
        input in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        fuzz_message(&input);
    }
}
