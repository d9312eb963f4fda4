use super::*;

const RTO: Duration = Duration::from_secs(1);
const ARRIVED: Tsn = Tsn::new(30);
const COMPLETE: Chunk = Chunk::ShutdownComplete { reflected: false };

fn open() -> Shutdown {
    Shutdown::new(ShutdownLimits {
        rto_max: Duration::from_secs(60),
        max_retransmissions: 10,
    })
}

fn pending() -> Shutdown {
    let mut shutdown = open();
    shutdown.start();
    shutdown
}

fn sent() -> Shutdown {
    let mut shutdown = pending();
    shutdown.on_settled(Instant::ZERO);
    assert_eq!(poll(&mut shutdown), Some(Chunk::Shutdown(ARRIVED)));
    shutdown
}

fn received() -> Shutdown {
    let mut shutdown = open();
    assert_eq!(
        shutdown.on_shutdown(Instant::ZERO),
        ShutdownOutcome::PeerClosing
    );
    shutdown
}

fn acknowledging() -> Shutdown {
    let mut shutdown = received();
    shutdown.on_settled(Instant::ZERO);
    assert_eq!(poll(&mut shutdown), Some(Chunk::ShutdownAck));
    shutdown
}

fn over() -> Shutdown {
    let mut shutdown = acknowledging();
    assert_eq!(shutdown.on_shutdown_complete(), ShutdownOutcome::Complete);
    shutdown
}

fn every_stage() -> [Shutdown; 6] {
    [
        open(),
        pending(),
        sent(),
        received(),
        acknowledging(),
        over(),
    ]
}

fn poll(shutdown: &mut Shutdown) -> Option<Chunk> {
    let chunk = shutdown.poll_chunk(Instant::ZERO, ARRIVED, RTO);
    assert_eq!(
        shutdown.poll_chunk(Instant::ZERO, ARRIVED, RTO),
        None,
        "one at a time"
    );
    chunk
}

#[test]
fn what_was_sent_arrives_before_the_end_is_announced() {
    let mut shutdown = pending();
    assert!(!shutdown.is_open());
    assert!(shutdown.takes_data());
    assert_eq!((poll(&mut shutdown), shutdown.poll_timeout()), (None, None));
    shutdown.on_settled(Instant::ZERO);
    assert_eq!(poll(&mut shutdown), Some(Chunk::Shutdown(ARRIVED)));
    shutdown.on_settled(Instant::ZERO);
    assert_eq!(poll(&mut shutdown), None, "told twice");
}

#[test]
fn an_association_that_no_end_closes_settles_without_a_word() {
    let mut shutdown = open();
    shutdown.on_settled(Instant::ZERO);
    assert_eq!((poll(&mut shutdown), shutdown.poll_timeout()), (None, None));
    assert!(shutdown.is_open());
}

#[test]
fn either_end_comes_to_the_end() {
    let (mut here, mut there) = (sent(), open());
    assert_eq!(
        there.on_shutdown(Instant::ZERO),
        ShutdownOutcome::PeerClosing
    );
    assert!(!there.is_open() && !there.takes_data());
    assert_eq!(
        poll(&mut there),
        None,
        "something of its own is still in flight"
    );
    there.on_settled(Instant::ZERO);
    assert_eq!(poll(&mut there), Some(Chunk::ShutdownAck));
    assert_eq!(here.on_shutdown_ack(), ShutdownOutcome::Complete);
    assert_eq!(poll(&mut here), Some(COMPLETE));
    assert_eq!(there.on_shutdown_complete(), ShutdownOutcome::Complete);
    for mut shutdown in [here, there] {
        assert_eq!((poll(&mut shutdown), shutdown.poll_timeout()), (None, None));
    }
}

#[test]
fn both_ends_may_end_it_at_once() {
    let (mut here, mut there) = (sent(), sent());
    for end in [&mut here, &mut there] {
        assert_eq!(end.on_shutdown(Instant::ZERO), ShutdownOutcome::PeerClosing);
        assert_eq!(poll(end), Some(Chunk::ShutdownAck));
    }
    assert_eq!(here.on_shutdown_ack(), ShutdownOutcome::Complete);
    assert_eq!(poll(&mut here), Some(COMPLETE));
    assert_eq!(there.on_shutdown_complete(), ShutdownOutcome::Complete);
}

#[test]
fn a_shutdown_in_any_stage_is_answered_as_that_stage_asks() {
    let expected = [
        (ShutdownOutcome::PeerClosing, None),
        (ShutdownOutcome::PeerClosing, None),
        (ShutdownOutcome::PeerClosing, Some(Chunk::ShutdownAck)),
        (ShutdownOutcome::Nothing, None),
        (ShutdownOutcome::Nothing, Some(Chunk::ShutdownAck)),
        (ShutdownOutcome::Nothing, None),
    ];
    for (mut shutdown, expected) in every_stage().into_iter().zip(expected) {
        let stage = shutdown.stage;
        let outcome = shutdown.on_shutdown(Instant::ZERO);
        assert_eq!((outcome, poll(&mut shutdown)), expected, "{stage:?}");
    }
}

#[test]
fn acknowledgement_and_completion_count_only_where_they_are_waited_for() {
    for mut shutdown in every_stage() {
        let stage = shutdown.stage;
        let is_awaited = matches!(stage, ShutdownStage::Sent | ShutdownStage::AckSent);
        let outcome = shutdown.on_shutdown_ack();
        assert_eq!(
            outcome == ShutdownOutcome::Complete,
            is_awaited,
            "{stage:?}"
        );
        assert_eq!(
            poll(&mut shutdown),
            is_awaited.then_some(COMPLETE),
            "{stage:?}"
        );
    }
    for mut shutdown in every_stage() {
        let stage = shutdown.stage;
        let outcome = shutdown.on_shutdown_complete();
        assert_eq!(
            outcome == ShutdownOutcome::Complete,
            stage == ShutdownStage::AckSent,
            "{stage:?}"
        );
        assert_eq!(poll(&mut shutdown), None, "{stage:?}");
    }
}

#[test]
fn data_that_still_comes_is_answered_by_how_far_it_came() {
    let mut shutdown = sent();
    shutdown.on_data();
    let further = Tsn::new(31);
    let chunk = shutdown.poll_chunk(Instant::ZERO, further, RTO);
    assert_eq!(chunk, Some(Chunk::Shutdown(further)));
    for mut shutdown in [open(), pending(), received(), acknowledging(), over()] {
        shutdown.on_data();
        assert_eq!(poll(&mut shutdown), None);
    }
}

#[test]
fn what_is_not_answered_goes_again_and_in_the_end_it_gives_up() {
    for (begin, chunk) in [
        (sent as fn() -> Shutdown, Chunk::Shutdown(ARRIVED)),
        (acknowledging, Chunk::ShutdownAck),
    ] {
        let mut shutdown = begin();
        let waits = [1, 2, 4, 8, 16, 32, 60];
        for wait in waits {
            let at = shutdown.poll_timeout().unwrap();
            assert_eq!(at, Instant::ZERO + RTO * wait);
            assert_eq!(
                shutdown.handle_timeout(Instant::ZERO),
                ShutdownOutcome::Nothing,
                "too early"
            );
            assert_eq!(shutdown.handle_timeout(at), ShutdownOutcome::TimedOut);
            assert_eq!(poll(&mut shutdown), Some(chunk.clone()));
        }
        let late = Instant::ZERO + RTO * 300;
        assert_eq!(shutdown.handle_timeout(late), ShutdownOutcome::GaveUp);
        assert_eq!((poll(&mut shutdown), shutdown.poll_timeout()), (None, None));
    }
}

/// Shuts down without an answer until it gives up; returns the number of tries and the time.
fn ask_in_vain(max_retransmissions: u32, rto: Duration) -> (u32, Duration) {
    let mut shutdown = Shutdown::new(ShutdownLimits {
        rto_max: Duration::from_secs(60),
        max_retransmissions,
    });
    shutdown.start();
    shutdown.on_settled(Instant::ZERO);
    let (mut asked, mut now) = (0, Instant::ZERO);
    loop {
        asked += u32::from(shutdown.poll_chunk(now, ARRIVED, rto).is_some());
        now = shutdown.poll_timeout().unwrap();
        match shutdown.handle_timeout(now) {
            ShutdownOutcome::TimedOut => {}
            outcome => {
                assert_eq!(outcome, ShutdownOutcome::GaveUp);
                return (asked, now.since(Instant::ZERO));
            }
        }
    }
}

/// By the specification's defaults four time-outs last 15 s; with an RTO of 200 ms they last 3 s.
#[test]
fn who_asks_more_often_gives_up_no_sooner() {
    let seconds = Duration::from_secs;
    assert_eq!(ask_in_vain(3, RTO), (4, seconds(15)));
    let (asked, after) = ask_in_vain(3, Duration::from_millis(200));
    assert!(asked > 4 && after >= seconds(15), "{asked}, {after:?}");
    assert!(after < seconds(30), "{after:?}");
    // T5 limits the wait in any case.
    for rto in [Duration::from_millis(200), RTO, seconds(10)] {
        assert_eq!(ask_in_vain(10, rto).1, seconds(300));
    }
}

#[test]
fn a_peer_that_goes_on_sending_is_not_waited_for_for_ever() {
    let mut shutdown = sent();
    let mut now = Instant::ZERO;
    let outcome = loop {
        shutdown.on_data();
        shutdown.poll_chunk(now, ARRIVED, RTO);
        now = shutdown.poll_timeout().unwrap();
        match shutdown.handle_timeout(now) {
            ShutdownOutcome::TimedOut => {}
            outcome => break outcome,
        }
    };
    assert_eq!(
        (outcome, now),
        (
            ShutdownOutcome::GaveUp,
            Instant::ZERO + Duration::from_secs(300)
        )
    );
}

#[test]
fn a_late_beginning_is_answered_only_while_acknowledging() {
    for mut shutdown in every_stage() {
        let acknowledges = shutdown.is_acknowledging();
        shutdown.on_late_beginning();
        assert_eq!(
            poll(&mut shutdown),
            acknowledges.then_some(Chunk::ShutdownAck)
        );
    }
}
