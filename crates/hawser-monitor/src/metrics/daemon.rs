//! The process, and its named counters.

use hawser_control::StatusSnapshot;

use super::sessions;
use super::text::Text;

pub(super) fn write(text: &mut Text, snapshot: &StatusSnapshot) {
    process(text, snapshot);
    relayed(text, snapshot);
    counted(text, snapshot);
}

fn process(text: &mut Text, snapshot: &StatusSnapshot) {
    let role = snapshot.role.to_string();
    let labels = [
        ("version", snapshot.version.as_str()),
        ("role", role.as_str()),
    ];
    text.gauge("hawser_build_info", "Always 1; the labels say what runs.")
        .put(&labels, 1_u64);
    text.gauge(
        "hawser_uptime_seconds",
        "Time since the daemon was started.",
    )
    .put(&[], snapshot.uptime);
    let memory = &snapshot.memory;
    text.gauge(
        "hawser_resident_memory_bytes",
        "Memory of the process, as the kernel counts it.",
    )
    .put(&[], memory.resident_bytes);
    text.gauge(
        "hawser_data_memory_bytes",
        "Memory held for data of all sessions.",
    )
    .put(&[], memory.used_bytes);
}

/// Writes the traffic through a client's proxy port, or from a gateway to destinations.
fn relayed(text: &mut Text, snapshot: &StatusSnapshot) {
    let count = |name: &str| snapshot.counters.get(name).copied().unwrap_or(0);
    let mut family = text.counter(
        "hawser_relayed_bytes_total",
        "Bytes passed on between applications and destinations.",
    );
    for (direction, names) in RELAYED {
        let bytes = names.map(count).into_iter().fold(0, u64::saturating_add);
        family.put(&[("direction", direction)], bytes);
    }
    for (counter, name, help) in GAUGES {
        text.gauge(name, help).put(&[], count(counter));
    }
}

fn counted(text: &mut Text, snapshot: &StatusSnapshot) {
    let mut family = text.counter(
        "hawser_events_total",
        "What the daemon has counted: requests, refusals, faults.",
    );
    let is_elsewhere = |name: &str| {
        RELAYED.iter().any(|(_, names)| names.contains(&name))
            || GAUGES.iter().any(|(counter, ..)| *counter == name)
            || sessions::has(name)
    };
    let counters = snapshot.counters.iter();
    let counters = counters.filter(|(name, _)| !is_elsewhere(name));
    for (name, count) in counters.take(MAX_EVENTS) {
        family.put(&[("event", name)], *count);
    }
}

/// Counters by their names in a snapshot.
const RELAYED: [(&str, [&str; 4]); 2] = [
    (
        "up",
        [
            "proxy-bytes-up",
            "gateway-bytes-up",
            "meeting-bytes-up",
            "front-bytes-up",
        ],
    ),
    (
        "down",
        [
            "proxy-bytes-down",
            "gateway-bytes-down",
            "meeting-bytes-down",
            "front-bytes-down",
        ],
    ),
];

/// Counters that may fall, and therefore are gauges.
const GAUGES: [(&str, &str, &str); 5] = [
    (
        "proxy-current",
        "hawser_proxy_connections",
        "Connections of applications that are open at the proxy port.",
    ),
    (
        "proxy-associations",
        "hawser_proxy_associations",
        "Ports for datagrams of applications that are open.",
    ),
    (
        "gateway-current",
        "hawser_relay_streams",
        "Streams of clients that a gateway serves.",
    ),
    (
        "front-current",
        "hawser_fronted_streams",
        "Streams of hosts that have not enrolled, to services of this machine.",
    ),
    (
        "meeting-hosts",
        "hawser_meeting_hosts",
        "Clients of a gateway that other clients may meet there.",
    ),
];

/// Far more names than a daemon has.
const MAX_EVENTS: usize = 256;
