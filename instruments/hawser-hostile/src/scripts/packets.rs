//! Scripts of a client whose gateway carries packets and has a network of its own.

use bytes::{BufMut as _, BytesMut};

use crate::network::{ANYCAST, ECHO, OUTSIDE};
use crate::samples;
use crate::script::Script;
use crate::step::{Place, Step, Turn};

pub(crate) fn packets() -> Vec<Script> {
    vec![
        // A route makes the address the gateway's own, so nothing of it may be reached.
        Script::client(
            "streams-to-a-local-route",
            vec![Step::Open(50, Place::LocalRoute, 0), Step::Refused(50)],
        )
        .with_packets(),
        Script::client(
            "packets-to-a-local-route",
            vec![
                Step::Tunnel,
                Step::InnerPackets(50, |turn, out| {
                    let (from, to) = (turn.names.inner, turn.scene.local_route());
                    samples::syn((from, 5000 + turn.number as u16), to, out);
                }),
                Step::NothingFrom(ANYCAST),
            ],
        )
        .with_packets(),
        Script::client(
            "flows-of-packets",
            vec![Step::Tunnel, Step::InnerPackets(FLOWS, a_flow)],
        )
        .with_packets(),
        Script::client(
            "packets-of-all-kinds",
            vec![Step::Tunnel, Step::InnerPackets(20_000, any_packet)],
        )
        .with_packets(),
    ]
}

/// A datagram of a flow of its own, which the host outside answers.
fn a_flow(turn: Turn<'_>, out: &mut BytesMut) {
    let port = 1024 + (turn.number % 64_000) as u16;
    samples::datagram((turn.names.inner, port), (OUTSIDE, ECHO).into(), out);
}

/// Packets of other hosts, for this host, cut short, and of no protocol.
fn any_packet(turn: Turn<'_>, out: &mut BytesMut) {
    a_flow(turn, out);
    match turn.number % 5 {
        0 => out.truncate(turn.number as usize % 20),
        1 => out[9] = turn.number as u8,
        2 => out[12..16].copy_from_slice(&OUTSIDE.octets()),
        3 => out[16..20].copy_from_slice(&[127, 0, 0, 1]),
        _ => {
            out.clear();
            out.put_bytes(turn.number as u8, turn.number as usize % 1400);
        }
    }
}

/// More than any client may have at once.
const FLOWS: u64 = 50_000;
