//! Scripts of clients that have not enrolled, at the port that is open to them. They connect from
//! the server's own machine, so none of their streams may lead anywhere.

use std::time::Duration;

use crate::script::Script;
use crate::step::{Place, Step};

pub(crate) fn strangers() -> Vec<Script> {
    vec![
        // Services would take them for this machine.
        Script::stranger(
            "strangers-from-this-machine",
            vec![refused(Place::Fronted, 200)],
        ),
        Script::stranger(
            "strangers-to-other-places",
            vec![
                refused(Place::AlmostFronted, 20),
                refused(Place::Sink, 20),
                refused(Place::Source, 20),
                refused(Place::Datagrams, 20),
            ],
        ),
        Script::stranger(
            "strangers-streams-without-end",
            vec![Step::Repeat(20, vec![refused(Place::Fronted, 200)])],
        ),
        Script::stranger(
            "strangers-hijack",
            vec![Step::Join(1), Step::Hijack(5), Step::Join(1)],
        ),
        Script::stranger(
            "strangers-idle-connections",
            vec![Step::Repeat(
                2,
                vec![Step::Idle(256), Step::Return(Duration::from_secs(3))],
            )],
        )
        .descriptors(600),
        Script::stranger(
            "strangers-channel-churn",
            vec![Step::Churn(100), refused(Place::Fronted, 1)],
        ),
    ]
}

/// Opens so many streams, all of which are refused.
fn refused(place: Place, count: usize) -> Step {
    let open = Step::Open(count as u64, place, 0);
    Step::Repeat(1, vec![open, Step::Refused(count)])
}
