//! Scripts that try to make the gateway hold ever more memory.

use std::time::Duration;

use hawser_types::StreamId;
use hawser_wire::Command;

use crate::frames;
use crate::script::Script;
use crate::step::{Manners, Place, Step};

pub(crate) fn memory() -> Vec<Script> {
    [first_part(), second_part(), measurements()].concat()
}

fn first_part() -> Vec<Script> {
    vec![
        Script::client("associate-flood", vec![Step::Associate(20_000)]),
        Script::client(
            "unopened-streams",
            vec![Step::Records(4096, |turn, out| {
                frames::data(turn.stream(), 0, &[0; 16 * 1024], out);
            })],
        )
        .may_overflow(),
        Script::client(
            "unopened-full-streams",
            vec![Step::Records(4096, |turn, out| {
                frames::data(turn.stream(), 0, &[0; 64 * 1024], out);
            })],
        )
        .may_overflow(),
        Script::client(
            "pinned-buffers",
            vec![Step::Records(4096, |turn, out| match turn.number % 4 {
                // Each payload has an eighth of the buffer that it comes in.
                0 => frames::data(turn.stream(), 0, &[0; 33 * 1024], out),
                _ => frames::padding(66_000, out),
            })],
        )
        .may_overflow(),
        Script::client(
            "empty-datagram-flood",
            vec![
                Step::Open(1, Place::EmptyDatagrams, 0),
                Step::Pause(Duration::from_secs(3)),
                Step::Came(5_000),
            ],
        )
        .may_be_given_up(),
        Script::client(
            "empty-datagram-flood-unread",
            vec![
                Step::Open(1, Place::EmptyDatagrams, 0),
                Step::Pause(Duration::from_millis(100)),
                Step::Listen(Manners::DEAF),
                Step::Pause(Duration::from_secs(2)),
                Step::Listen(Manners::GOOD),
                Step::Pause(Duration::from_secs(1)),
            ],
        )
        .narrow()
        .may_be_given_up(),
    ]
}

/// Streams that the gateway itself answers, without a destination that could refuse them.
fn measurements() -> Vec<Script> {
    vec![
        Script::client(
            "measurements-held",
            vec![
                Step::Listen(Manners::DEAF),
                Step::Open(400, Place::MeasuredDown, 0),
                Step::Open(100, Place::MeasuredUp, 1000),
                Step::Pause(Duration::from_secs(2)),
            ],
        )
        .may_overflow()
        .may_be_given_up(),
        Script::client(
            "datagrams-nothing-takes",
            vec![
                Step::Open(64, Place::MeasuredUp, 0),
                Step::Records(20_000, |turn, out| {
                    let stream = StreamId::new(2 + 2 * (turn.number % 64));
                    hawser_wire::put_datagram(stream, &[0; 1200], out);
                }),
            ],
        ),
        Script::client(
            "measurements-opened-and-reset",
            vec![Step::Repeat(
                40,
                vec![
                    Step::Records(100, |turn, out| {
                        let metadata = turn.scene.metadata(Place::MeasuredDown);
                        frames::chunk((turn.stream(), 0), frames::OPEN, &metadata, &[], out);
                    }),
                    Step::Commands(100, |turn, out| {
                        let stream = StreamId::new(turn.stream());
                        out.push(Command::Reset { stream, code: 0 });
                    }),
                ],
            )],
        )
        .may_overflow(),
    ]
}

fn second_part() -> Vec<Script> {
    vec![
        Script::client(
            "datagram-flood-unread",
            vec![
                Step::Open(4, Place::Datagrams, 0),
                Step::Listen(Manners::DEAF),
                Step::Pause(Duration::from_secs(3)),
            ],
        )
        .may_be_given_up(),
        Script::client(
            "downloads-never-read",
            vec![
                Step::Open(64, Place::Source, 0),
                Step::Listen(Manners::DEAF),
                Step::Pause(Duration::from_secs(3)),
            ],
        )
        .descriptors(600)
        .may_be_given_up(),
        Script::client(
            "downloads-never-acknowledged",
            vec![
                Step::Listen(Manners::GREEDY),
                Step::Open(64, Place::Source, 0),
                Step::Pause(Duration::from_secs(3)),
            ],
        )
        .descriptors(600)
        .may_be_given_up(),
        Script::client(
            "uploads-never-taken",
            vec![
                Step::Open(256, Place::Silent, 60 * 1024),
                Step::Pause(Duration::from_secs(1)),
            ],
        )
        .descriptors(600),
        Script::client(
            "holes-in-streams",
            vec![
                Step::Open(64, Place::Silent, 1),
                // Every second byte, so that nothing can be handed on after the first.
                Step::Records(16_000, |turn, out| {
                    let stream = 2 + 2 * (turn.number % 64);
                    // Within the credit, however often the script is repeated.
                    let hole = turn.number / 64 % 250;
                    frames::data(stream, 2 + 2 * hole, &[7], out);
                }),
            ],
        )
        .descriptors(192),
        Script::client("empty-records", vec![Step::Records(50_000, |_, _| {})]),
        Script::client(
            "padding",
            vec![Step::Records(2000, |_, out| {
                frames::padding(60_000, out);
            })],
        ),
    ]
}
