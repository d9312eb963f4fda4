//! Connections over one link each and over the gateway; counts per link are with the links.

use hawser_control::ConnectionsStatus;

use super::text::Text;

pub(super) fn write(text: &mut Text, connections: Option<&ConnectionsStatus>) {
    for (name, help, count) in COUNTS {
        text.counter(name, help)
            .put(&[], connections.map_or(0, count));
    }
    over_gateway(text, connections);
}

/// Writes no samples without an enrolled gateway: zeros would mean a gateway that is down.
fn over_gateway(text: &mut Text, connections: Option<&ConnectionsStatus>) {
    let gateway = connections.and_then(|connections| connections.gateway.as_ref());
    text.gauge(
        "hawser_gateway_up",
        "Whether a session with the gateway runs.",
    )
    .put_known(&[], gateway.map(|gateway| gateway.is_up));
    text.counter(
        "hawser_gateway_connections_total",
        "Connections that came about over the gateway.",
    )
    .put_known(&[], gateway.map(|gateway| gateway.placed));
    text.gauge(
        "hawser_gateway_connections_open",
        "Connections over the gateway that are open.",
    )
    .put_known(&[], gateway.map(|gateway| gateway.open));
    text.gauge(
        "hawser_gateway_connect_seconds",
        "How long connecting by the gateway takes; absent while unknown.",
    )
    .put_known(&[], gateway.and_then(|gateway| gateway.latency));
}

type Count = fn(&ConnectionsStatus) -> u64;

const COUNTS: [(&str, &str, Count); 4] = [
    (
        "hawser_connections_placed_total",
        "Connections that came about over one link each.",
        |all| all.placed,
    ),
    (
        "hawser_connections_moved_over_total",
        "Connections that came about over another link than the one tried first.",
        |all| all.moved_over,
    ),
    (
        "hawser_connections_unanswered_total",
        "Destinations that answered over no link.",
        |all| all.unanswered,
    ),
    (
        "hawser_connections_over_peers_total",
        "Connections that came about over sessions with their destinations.",
        |all| all.over_peers,
    ),
];
