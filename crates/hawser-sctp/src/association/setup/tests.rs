mod beginning;
mod collision;

use hawser_types::Instant;
use hawser_wire::sctp::{Chunk, Parameter, VerificationTag};

use super::{Arrival, Route, Setup, SetupOutcome};
use crate::handshake::Cookie;
use crate::testing::{Sent, init, names, negotiated, route, seconds, setup_context, socket};

/// Tests of one end, with tag 1; the peer has tag 2.
const OWN: u32 = 1;
const PEER: u32 = 2;
const HOME: &str = "192.0.2.1";
const AWAY: &str = "198.51.100.1";
const AWAY_TOO: &str = "203.0.113.1";

fn waiting() -> Setup {
    let mut setup = Setup::connect(
        Instant::ZERO,
        setup_context(&[HOME]),
        names(OWN),
        &[socket(AWAY)],
    );
    assert_eq!(drain(&mut setup).len(), 1);
    setup
}

fn echoed() -> Setup {
    let mut setup = waiting();
    let (outcome, sent) = deliver(&mut setup, OWN, Chunk::InitAck(answer(vec![])));
    assert_eq!((outcome, sent.len()), (SetupOutcome::Nothing, 1));
    setup
}

fn established() -> Setup {
    let negotiated = negotiated(OWN, PEER, &[AWAY, AWAY_TOO]);
    let mut setup = Setup::accept(setup_context(&[HOME]), negotiated.clone());
    let cookie = Cookie {
        expires: seconds(60),
        tie: 0,
        negotiated: negotiated.clone(),
    };
    let chunk = Chunk::CookieEcho(setup.context.key.seal(&cookie));
    let (outcome, sent) = deliver(&mut setup, OWN, chunk);
    assert_eq!(outcome, SetupOutcome::Established(negotiated));
    assert_eq!(sent[0].chunks, [Chunk::CookieAck]);
    setup
}

fn closed() -> Setup {
    let mut setup = established();
    setup.abort(Some(route(HOME, AWAY)), Vec::new());
    drain(&mut setup);
    setup
}

/// Builds a valid INIT ACK with more parameters.
fn answer(more: Vec<Parameter>) -> hawser_wire::sctp::Init {
    let mut parameters = vec![Parameter::Cookie(vec![5; 40].into())];
    parameters.extend(more);
    init(PEER, parameters)
}

fn drain(setup: &mut Setup) -> Vec<Sent> {
    std::iter::from_fn(|| setup.poll_transmit())
        .map(|it| Sent::of(&it))
        .collect()
}

fn arrival(tag: u32) -> Arrival {
    Arrival {
        route: route(HOME, AWAY),
        tag: VerificationTag::new(tag),
        acknowledging: false,
    }
}

/// Delivers a chunk from the peer's first address after a second.
fn deliver(setup: &mut Setup, tag: u32, chunk: Chunk) -> (SetupOutcome, Vec<Sent>) {
    deliver_by(setup, seconds(1), arrival(tag), chunk)
}

fn deliver_by(
    setup: &mut Setup,
    now: Instant,
    arrival: Arrival,
    chunk: Chunk,
) -> (SetupOutcome, Vec<Sent>) {
    let outcome = setup.on_chunk(now, arrival, &chunk);
    (outcome, drain(setup))
}
