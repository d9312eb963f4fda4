use hawser_types::{LimitedBy, Permission};
use proptest::prelude::*;

use super::*;

fn examples() -> Vec<Command> {
    vec![
        Command::Hello(Hello {
            max_streams: 4096,
            accepts_plain: true,
            takes_datagrams: false,
            ends_halves: true,
            follows_scheduler: false,
            knows_signals: false,
            link: 7,
        }),
        Command::Grant(Grant {
            first: ChannelId::new(1),
            count: 64,
            addresses: vec![
                "203.0.113.5:7443".parse().unwrap(),
                "[2001:db8::1]:7443".parse().unwrap(),
            ],
        }),
        Command::Reset {
            stream: StreamId::new(6),
            code: 4,
        },
        Command::Stop {
            stream: StreamId::new(7),
            code: 9,
        },
        Command::ResetSending {
            stream: StreamId::new(70),
            code: u32::MAX,
        },
        Command::ChannelClosed {
            channel: ChannelId::new(3),
        },
        Command::CloseReason {
            code: 3,
            text: "going down".into(),
        },
        Command::Close { code: 0 },
        Command::Enrol(Enrolment {
            key: [1; 32],
            signature: [2; 64],
            name: "laptop".into(),
        }),
        Command::Enrolled,
        Command::LinkRules(vec![LinkRulesEntry {
            link: 3,
            permission: Permission::Reserve(LimitedBy::Choice),
            weight: 1500,
            price: 2_000_000,
            price_weight: 250,
        }]),
        Command::DatagramPort { port: 7443 },
        Command::Associate {
            channel: ChannelId::new(5),
            transport: TransportChoice::Auto,
        },
        Command::Scheduler { policy: 300 },
        Command::AcceptsJoins { port: 7450 },
        Command::GoingAway,
    ]
}

#[test]
fn commands_survive_the_round_trip_byte_by_byte() {
    let mut bytes = BytesMut::new();
    for command in examples() {
        command.encode(&mut bytes);
    }
    let mut decoder = CommandDecoder::default();
    let mut got = Vec::new();
    for byte in &bytes {
        decoder.push(&[*byte]);
        while let Some(command) = decoder.next_command().unwrap() {
            got.push(command);
        }
    }
    assert_eq!(got, examples());
}

#[test]
fn a_command_longer_than_allowed_is_refused_before_it_arrives() {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0x20);
    put_varint(&mut bytes, MAX_COMMAND_VALUE as u64 + 1);
    let mut decoder = CommandDecoder::default();
    decoder.push(&bytes);
    assert_eq!(
        decoder.next_command().unwrap_err().reason,
        MalformedReason::TooLarge
    );
}

#[test]
fn a_hello_with_fields_of_a_later_version_is_understood() {
    let mut decoder = CommandDecoder::default();
    decoder.push(&[
        CommandKind::Hello.number() | CRITICAL,
        5,
        9,
        0x3e,
        3,
        0xaa,
        0xbb,
    ]);
    let hello = Hello {
        max_streams: 9,
        accepts_plain: false,
        takes_datagrams: true,
        ends_halves: true,
        follows_scheduler: true,
        knows_signals: true,
        link: 3,
    };
    assert_eq!(decoder.next_command(), Ok(Some(Command::Hello(hello))));
}

#[test]
fn what_is_said_of_associations_has_these_golden_bytes() {
    let mut bytes = BytesMut::new();
    let port = Command::DatagramPort { port: 7443 };
    let associate = Command::Associate {
        channel: ChannelId::new(70),
        transport: TransportChoice::Sctp,
    };
    port.encode(&mut bytes);
    associate.encode(&mut bytes);
    assert_eq!(bytes, &b"\x09\x02\x5d\x13\x0a\x03\x40\x46\x01"[..]);
    let mut decoder = CommandDecoder::default();
    decoder.push(&bytes);
    assert_eq!(decoder.next_command(), Ok(Some(port)));
    assert_eq!(decoder.next_command(), Ok(Some(associate)));
}

#[test]
fn the_wish_for_a_scheduler_has_these_golden_bytes() {
    let mut bytes = BytesMut::new();
    let wish = Command::Scheduler { policy: 8 };
    wish.encode(&mut bytes);
    assert_eq!(bytes, &b"\x0e\x01\x08"[..]);
    let mut decoder = CommandDecoder::default();
    decoder.push(&bytes);
    assert_eq!(decoder.next_command(), Ok(Some(wish)));
}

#[test]
fn that_joins_are_accepted_has_these_golden_bytes() {
    let mut bytes = BytesMut::new();
    let port = Command::AcceptsJoins {
        port: MIN_JOIN_PORT,
    };
    port.encode(&mut bytes);
    assert_eq!(bytes, &b"\x0f\x02\x44\x00"[..]);
    let mut decoder = CommandDecoder::default();
    decoder.push(&bytes);
    assert_eq!(decoder.next_command(), Ok(Some(port)));
}

#[test]
fn that_a_gateway_goes_away_has_these_golden_bytes() {
    let mut bytes = BytesMut::new();
    Command::GoingAway.encode(&mut bytes);
    // Not critical: a client of before stays.
    assert_eq!(bytes, &b"\x10\x00"[..]);
    let mut decoder = CommandDecoder::default();
    decoder.push(&bytes);
    assert_eq!(decoder.next_command(), Ok(Some(Command::GoingAway)));
    decoder.push(&[CommandKind::GoingAway.number(), 1, 0]);
    let error = decoder.next_command().unwrap_err();
    assert_eq!(error.reason, MalformedReason::TrailingBytes);
}

#[test]
fn a_command_of_a_later_version_that_is_not_critical_is_skipped() {
    let mut decoder = CommandDecoder::default();
    decoder.push(&[
        0x3f,
        2,
        0x44,
        0x00,
        CommandKind::Enrolled.number() | CRITICAL,
        0,
    ]);
    assert_eq!(decoder.next_command(), Ok(Some(Command::Enrolled)));
    decoder.push(&[0x3f | CRITICAL, 0]);
    let error = decoder.next_command().unwrap_err();
    assert_eq!(error.reason, MalformedReason::UnknownCritical);
}

#[test]
fn what_is_said_of_halves_and_closing_has_these_golden_bytes() {
    let stop = Command::Stop {
        stream: StreamId::new(70),
        code: 9,
    };
    let reset = Command::ResetSending {
        stream: StreamId::new(70),
        code: 256,
    };
    let reason = Command::CloseReason {
        code: 3,
        text: "bye".into(),
    };
    let mut bytes = BytesMut::new();
    for command in [&stop, &reset, &reason] {
        command.encode(&mut bytes);
    }
    let golden = b"\x0b\x03\x40\x46\x09\x0c\x04\x40\x46\x41\x00\x0d\x04\x03bye";
    assert_eq!(bytes, &golden[..]);
}

#[test]
fn the_reason_of_a_close_is_cut_between_characters() {
    let mut bytes = BytesMut::new();
    let text = "ä".repeat(300);
    Command::CloseReason { code: 1, text }.encode(&mut bytes);
    let mut decoder = CommandDecoder::default();
    decoder.push(&bytes);
    let Ok(Some(Command::CloseReason { text, .. })) = decoder.next_command() else {
        panic!("no reason");
    };
    assert_eq!(text, "ä".repeat(MAX_CLOSE_REASON / 2));
    let mut decoder = CommandDecoder::default();
    decoder.push(&[CommandKind::CloseReason.number(), 3, 1, 0xff, 0xfe]);
    let error = decoder.next_command().unwrap_err();
    assert_eq!(error.reason, MalformedReason::BadValue);
}

#[test]
fn ports_and_transports_that_there_are_not_are_refused() {
    for bytes in [
        &[CommandKind::DatagramPort.number(), 1, 0][..],
        &[CommandKind::DatagramPort.number(), 4, 0x80, 1, 0, 0],
        &[CommandKind::AcceptsJoins.number(), 2, 0x43, 0xff],
        &[CommandKind::AcceptsJoins.number(), 4, 0x80, 1, 0, 0],
        &[CommandKind::Associate.number(), 2, 5, 3],
    ] {
        let mut decoder = CommandDecoder::default();
        decoder.push(bytes);
        let error = decoder.next_command().unwrap_err();
        assert_eq!(error.reason, MalformedReason::BadValue, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::fuzz_commands(&data);
        crate::fuzzing::fuzz_join(&data);
    }
}
