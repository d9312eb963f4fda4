//! Connections that go over one link each, in `hawser status`.

use std::time::Duration;

use hawser_types::Rate;

use crate::figures::{clock, span};
use crate::table::{Side, Table, clip, printable};
use hawser_control::{
    ConnectionsStatus, DiscoveredStatus, GatewayStatus, NotAskedStatus, PlacingStatus,
    VouchedStatus,
};

/// Returns the placement of connections, as lines of at most `width` columns.
pub(crate) fn connections(status: &ConnectionsStatus, width: usize) -> Vec<String> {
    let title = format!(
        "CONNECTIONS over one link each, {}: {} placed, {} moved over, {} unanswered",
        status.scheduler, status.placed, status.moved_over, status.unanswered
    );
    let mut table = Table::new([
        ("LINK", Side::Left),
        ("STATE", Side::Left),
        ("UP", Side::Right),
        ("DOWN Mbit/s", Side::Right),
        ("RTT", Side::Right),
        ("AGAIN", Side::Right),
        ("OPEN", Side::Right),
        ("ACTIVE", Side::Right),
        ("TO COME", Side::Right),
        ("PLACED", Side::Right),
    ]);
    for link in &status.links {
        table.push(row(link));
    }
    let mut lines = vec![clip(&printable(&title), width)];
    let left = status.left_to.iter().map(|tunnel| {
        let line = format!("  left to {tunnel}, which takes all traffic; --link goes past it");
        clip(&printable(&line), width)
    });
    lines.extend(left);
    let over = status.gateway.iter().map(over_gateway);
    let over = over.chain((status.over_peers > 0).then(|| over_peers(status.over_peers)));
    lines.extend(over.map(|line| clip(&printable(&line), width)));
    let found = status.discovered.iter().map(found);
    lines.extend(found.map(|line| clip(&printable(&line), width)));
    let held = status.vouched.iter().flat_map(vouched);
    lines.extend(held.map(|line| clip(&printable(&line), width)));
    let unasked = status.not_asked.iter().map(not_asked);
    lines.extend(unasked.map(|line| clip(&printable(&line), width)));
    let amiss = status.not_bonded.iter();
    let amiss = amiss.map(|it| format!("  not bonded with {}: {}", it.server, it.reason));
    lines.extend(amiss.map(|line| clip(&printable(&line), width)));
    lines.extend(table.lines(2, width));
    lines
}

fn over_gateway(gateway: &GatewayStatus) -> String {
    let state = match (gateway.is_up, gateway.unreachable_since_unix_ms) {
        (_, Some(since)) => {
            let reason = gateway.reason.as_deref().unwrap_or("unknown");
            format!(", not reached since {}: {reason}", clock(since))
        }
        (true, None) => String::new(),
        (false, None) => ", no session now".to_owned(),
    };
    let latency = gateway.latency.map(milliseconds);
    let latency = latency.map_or(String::new(), |took| format!(", {took} to connect"));
    format!(
        "  gateway ({}): {} placed, {} open{latency}{state}",
        gateway.usage, gateway.placed, gateway.open
    )
}

fn found(server: &DiscoveredStatus) -> String {
    let state = if server.is_bonded {
        "bonded with"
    } else {
        "no session yet with"
    };
    format!("  {state} {}, found by a {}", server.server, server.by)
}

fn vouched(one: &VouchedStatus) -> Vec<String> {
    let name = &one.name;
    let ports: Vec<String> = one.ports.iter().map(u16::to_string).collect();
    let held = match (one.left, ports.is_empty()) {
        (None, _) => format!("  {name} has no voucher yet: connections to it are refused"),
        (Some(_), true) => format!("  {name} has no Hawser, by its voucher"),
        (Some(left), false) => {
            let state = if one.is_bonded {
                "bonded with"
            } else {
                "no session now with"
            };
            let (ports, left) = (ports.join(" "), span(left));
            format!("  {state} {name}, ports {ports}, vouched for {left} more")
        }
    };
    let refused = one.refused.iter();
    let refused = refused.map(|why| format!("  a connection to {name} is refused: {why}"));
    let stale = one.stale.iter();
    let stale = stale.map(|why| format!("  the voucher of {name} can't be fetched: {why}"));
    std::iter::once(held).chain(refused).chain(stale).collect()
}

fn not_asked(place: &NotAskedStatus) -> String {
    let link = place.link.as_deref().unwrap_or("no link");
    let to = place.destination.map(|to| to.to_string());
    let to = to.as_deref().unwrap_or("any server");
    let left = span(place.left);
    format!("  handshakes over {link} do not ask {to} for Hawser, for {left}: the option is lost")
}

fn over_peers(count: u64) -> String {
    format!("  peers: {count} placed")
}

fn milliseconds(rtt: Duration) -> String {
    format!("{:.1} ms", rtt.as_secs_f64() * 1e3)
}

fn row(link: &PlacingStatus) -> [String; 10] {
    [
        link.name.clone(),
        link.state.clone(),
        rate(link.up),
        rate(link.down),
        link.latency.map_or_else(|| "?".to_owned(), milliseconds),
        loss(link),
        link.open.to_string(),
        link.active.to_string(),
        (link.up_bytes + link.down_bytes).to_string(),
        link.placed.to_string(),
    ]
}

/// Returns a rate, or `?` for an unknown one.
fn rate(rate: Rate) -> String {
    match rate {
        Rate::ZERO => "?".to_owned(),
        rate => format!("{:.2}", rate.bits_per_second() as f64 / 1e6),
    }
}

/// Returns the retransmitted share, if enough was sent to tell.
fn loss(link: &PlacingStatus) -> String {
    match link.up_loss {
        Some(loss) if link.up_loss_confidence >= ENOUGH => format!("{:.1} %", loss * 100.0),
        _ => "?".to_owned(),
    }
}

/// Confidence after some fifty segments.
const ENOUGH: f64 = 0.2;

#[cfg(test)]
mod tests {
    use hawser_types::{ByteCount, LinkIndex};

    use super::*;

    #[test]
    fn links_stand_below_one_another_with_what_is_known_of_them() {
        let known = PlacingStatus {
            name: "wwan0".to_owned(),
            index: LinkIndex::new(3),
            state: "sound".to_owned(),
            down: Rate::from_bits_per_second(25_000_000),
            latency: Some(Duration::from_micros(41_500)),
            up_loss: Some(0.0123),
            up_loss_confidence: 0.5,
            open: 12,
            active: 2,
            down_bytes: ByteCount::new(4_000_000),
            placed: 100,
            ..PlacingStatus::default()
        };
        let status = ConnectionsStatus {
            scheduler: "auto".to_owned(),
            placed: 100,
            left_to: vec!["wg0".to_owned()],
            gateway: Some(GatewayStatus {
                usage: "auto".to_owned(),
                placed: 7,
                open: 2,
                latency: Some(Duration::from_millis(80)),
                ..GatewayStatus::default()
            }),
            over_peers: 3,
            discovered: [("handshake", true), ("probe", false)]
                .map(|(by, is_bonded)| DiscoveredStatus {
                    server: "203.0.113.1:443".parse().unwrap(),
                    key: String::new(),
                    by: by.to_owned(),
                    is_bonded,
                })
                .into(),
            not_asked: vec![NotAskedStatus {
                link: Some("wwan0".to_owned()),
                destination: None,
                left: Duration::from_secs(600),
            }],
            links: vec![known],
            ..ConnectionsStatus::default()
        };
        let expected = [
            "CONNECTIONS over one link each, auto: 100 placed, 0 moved over, 0 unanswered",
            "  left to wg0, which takes all traffic; --link goes past it",
            "  gateway (auto): 7 placed, 2 open, 80.0 ms to connect, no session now",
            "  peers: 3 placed",
            "  bonded with 203.0.113.1:443, found by a handshake",
            "  no session yet with 203.0.113.1:443, found by a probe",
            "  handshakes over wwan0 do not ask any server for Hawser, for 10m 00s: the opt…",
            "  LINK   STATE  UP  DOWN Mbit/s      RTT  AGAIN  OPEN  ACTIVE  TO COME  PLACED",
            "  wwan0  sound   ?        25.00  41.5 ms  1.2 %    12       2  4.00 MB     100",
        ];
        assert_eq!(connections(&status, 79), expected);
        let little = PlacingStatus {
            up_loss_confidence: 0.1,
            ..status.links[0].clone()
        };
        assert_eq!(loss(&little), "?");
    }
}
