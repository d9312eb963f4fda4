mod compact;
mod cookies;
mod hostile;
mod unexpected;
mod whole;

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{Chunk, Init};

use super::{Endpoint, EndpointConfig, Handled, Ignored};
use crate::testing::{Sent, init, locals, packet, route};
use crate::{AssociationConfig, Route};

const HOME: &str = "192.0.2.1";
const AWAY: &str = "198.51.100.1";

/// Tag chosen by strangers.
const PEER: u32 = 2;

fn endpoint() -> Endpoint {
    endpoint_with(EndpointConfig::new(
        AssociationConfig::default(),
        &locals(&[HOME]),
    ))
}

fn endpoint_with(config: EndpointConfig) -> Endpoint {
    Endpoint::new(config, [3; 32], 0)
}

fn from_away() -> Route {
    route(HOME, AWAY)
}

/// Returns the answer to a stranger after a second; `None` if there is none.
fn answer(endpoint: &mut Endpoint, datagram: Bytes) -> Option<Sent> {
    match endpoint.handle_datagram(later(), from_away(), datagram) {
        Handled::Reply(transmit) => Some(Sent::of(&transmit)),
        Handled::Ignored(_) => None,
        other => panic!("neither answered nor ignored: {other:?}"),
    }
}

fn ignored(handled: Handled) -> Ignored {
    match handled {
        Handled::Ignored(why) => why,
        other => panic!("not ignored: {other:?}"),
    }
}

/// Returns the INIT ACK for an INIT from this route.
fn init_ack(endpoint: &mut Endpoint, from: Route, said: Init) -> Init {
    let datagram = packet(0, &[Chunk::Init(said)]);
    match endpoint.handle_datagram(later(), from, datagram) {
        Handled::Reply(transmit) => Sent::of(&transmit).init_ack().clone(),
        other => panic!("no answer: {other:?}"),
    }
}

/// Returns the INIT ACK for a valid INIT.
fn good(endpoint: &mut Endpoint) -> Init {
    init_ack(endpoint, from_away(), init(PEER, vec![]))
}

/// Builds the packet that returns the cookie of this INIT ACK.
fn echo(answer: &Init) -> Bytes {
    packet(
        answer.tag.value(),
        &[Chunk::CookieEcho(crate::testing::cookie_of(answer))],
    )
}

fn later() -> Instant {
    crate::testing::seconds(1)
}
