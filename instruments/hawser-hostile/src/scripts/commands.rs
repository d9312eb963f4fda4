//! Scripts that send commands and state at the wrong time, or too often.

use bytes::BufMut as _;
use hawser_session::{Limit, Misbehaviour};
use hawser_types::{ChannelId, StreamId};
use hawser_wire::{Command, PathReport, StateFrame, TransportChoice};

use crate::frames;
use crate::script::{Reason, Script};
use crate::step::{Manners, Step};

pub(crate) fn commands() -> Vec<Script> {
    [first_part(), second_part()].concat()
}

fn first_part() -> Vec<Script> {
    vec![
        Script::client(
            "command-before-hello",
            vec![Step::Commands(1, |_, out| {
                let stream = StreamId::new(2);
                out.push(Command::Reset { stream, code: 0 });
            })],
        )
        .without_hello()
        .ends_by(Misbehaviour::NoHello),
        Script::client(
            "acknowledges-what-was-not-sent",
            vec![Step::Records(1, |_, out| frames::ack(0, 1 << 40, out))],
        )
        .ends_by(Misbehaviour::AckOfUnsent),
        Script::client(
            "association-without-grant",
            vec![Step::Commands(1, |_, out| out.push(associate(1_000_000)))],
        )
        .ends_by(Misbehaviour::NumberNotGranted(ChannelId::new(1_000_000))),
        Script::client(
            "association-of-a-channel",
            vec![Step::Commands(1, |_, out| out.push(associate(0)))],
        )
        .ends_by(Misbehaviour::NumberUsed(ChannelId::new(0))),
        Script::client(
            "unknown-critical-command",
            vec![Step::Records(1, |_, out| {
                // The hello before had 7 bytes: type, length, and its value.
                frames::data(0, HELLO_BYTES, &[0x7f, 1, 0], out);
            })],
        )
        .ends_by_malformed("command"),
        Script::client(
            "unknown-critical-frame",
            vec![Step::Records(1, |_, out| out.put_slice(&[0x60, 1, 0]))],
        )
        .ends_by_malformed("frame"),
    ]
}

fn second_part() -> Vec<Script> {
    vec![
        Script::client(
            "commands-behind-a-hole",
            vec![
                Step::SkipCommands(10),
                Step::Commands(60_000, |_, out| out.push(Command::Close { code: 0 })),
            ],
        )
        .ends_by(Misbehaviour::CreditExceeded(StreamId::COMMANDS))
        .may_be_given_up(),
        Script::client(
            "numbers-given-up",
            vec![Step::Listen(Manners::NO_ACKS), Step::GiveUp(20_000)],
        )
        .may_end_by(Reason::Limit(Limit::Commands))
        .may_be_given_up(),
        Script::client(
            "state-flood",
            vec![Step::Records(20_000, |turn, out| {
                StateFrame::Heartbeat.encode(out);
                frames::ack(77, turn.number, out);
                frames::credit(turn.stream(), turn.number, out);
                StateFrame::Path(PathReport {
                    channel: ChannelId::new(0),
                    stamp: u64::MAX >> 2,
                    silent: turn.number % 2 == 0,
                    queue: Some(u64::MAX >> 3),
                    rate: u64::MAX >> 2,
                })
                .encode(out);
            })],
        ),
    ]
}

fn associate(channel: u32) -> Command {
    Command::Associate {
        channel: ChannelId::new(channel),
        transport: TransportChoice::Auto,
    }
}

/// Length of the hello that scripts begin with.
const HELLO_BYTES: u64 = 6;
