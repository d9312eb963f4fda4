//! Scripts that misuse connections: channels, joins and the gateway's port.

use std::time::Duration;

use crate::frames;
use crate::script::Script;
use crate::step::{Manners, Place, Step};

pub(crate) fn channels() -> Vec<Script> {
    [first_part(), second_part()].concat()
}

fn first_part() -> Vec<Script> {
    vec![
        Script::client(
            "record-too-large",
            vec![
                Step::Join(1),
                // A header that announces 69,633 bytes, one more than allowed.
                Step::Raw(vec![0, 0x01, 0x10, 0x01]),
                Step::Raw(vec![0; 4096]),
                Step::Lost,
            ],
        ),
        Script::client(
            "record-at-the-limit",
            vec![
                Step::Join(1),
                Step::Records(200, |_, out| {
                    // 69,616 bytes and the tag.
                    frames::padding(69_611, out);
                }),
            ],
        ),
        Script::client(
            "forged-record",
            vec![
                Step::Join(1),
                // A header that announces 20 bytes, and as many that no key has sealed.
                Step::Raw([vec![0, 0, 0, 20], vec![9; 20]].concat()),
                Step::Lost,
            ],
        ),
        Script::client(
            "records-that-never-end",
            vec![Step::Repeat(
                63,
                vec![Step::Join(1), Step::Raw(vec![0, 0, 0, 20, 9])],
            )],
        )
        .descriptors(160),
        Script::client(
            "garbage",
            vec![
                Step::Join(1),
                Step::Raw(b"GET / HTTP/1.1\r\n\r\n".to_vec()),
                Step::Lost,
            ],
        ),
        Script::client("number-used-twice", vec![Step::JoinTwice]),
        Script::client("channel-churn", vec![Step::Churn(300)]),
        // With the first one these are 64.
        Script::client("too-many-channels", vec![Step::Join(63), Step::JoinRefused])
            .descriptors(160),
    ]
}

fn second_part() -> Vec<Script> {
    vec![
        Script::client(
            "half-dead",
            vec![
                Step::Join(8),
                Step::First,
                Step::Listen(Manners::EAGER),
                Step::Open(16, Place::Source, 0),
                Step::Pause(Duration::from_millis(500)),
                Step::HalfDead,
                Step::Pause(Duration::from_secs(2)),
            ],
        ),
        Script::client(
            "idle-connections",
            vec![Step::Repeat(
                2,
                vec![Step::Idle(256), Step::Return(Duration::from_secs(1))],
            )],
        )
        .descriptors(600),
        Script::client(
            "ghost-sessions",
            vec![Step::Ghosts(15), Step::Return(Duration::from_secs(3))],
        )
        // On a busy machine its kernel may answer late on the session's only channel.
        .may_be_given_up(),
        Script::client(
            "slow-reader",
            vec![
                Step::Open(16, Place::Source, 0),
                Step::Repeat(
                    20,
                    vec![
                        Step::Listen(Manners::DEAF),
                        Step::Pause(Duration::from_millis(90)),
                        Step::Listen(Manners::EAGER),
                        Step::Pause(Duration::from_millis(10)),
                    ],
                ),
            ],
        )
        .may_be_given_up(),
        Script::client(
            "streams-over-dying-channels",
            vec![Step::Repeat(
                20,
                vec![
                    Step::Join(2),
                    Step::Records(20, |turn, out| {
                        let metadata = turn.scene.metadata(Place::Sink);
                        let at = (turn.stream(), 0);
                        frames::chunk(at, frames::OPEN, &metadata, &[0; 900], out);
                    }),
                    Step::Leave,
                ],
            )],
        )
        .descriptors(600),
    ]
}
