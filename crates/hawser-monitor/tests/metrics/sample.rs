//! A snapshot with data in every part.

use std::time::Duration;

use hawser_control::{
    ChannelState, ChannelStatus, ConnectionsStatus, GatewayStatus, LinkAllowed, LinkState,
    LinkStatus, LinkTraffic, MemoryStatus, PathState, PathStatus, PlacingStatus, SessionState,
    SessionStatus, SignalSource, SignalStatus, StatusSnapshot,
};
use hawser_types::{ByteCount, LinkIndex, LinkUse, Radio, Rate, SignalState, SignalStrength};

/// Two active links, one with an allowance; a gateway; sessions; counters.
pub(crate) fn rich() -> StatusSnapshot {
    let counters = [
        ("proxy-accepted", 12),
        ("proxy-current", 3),
        ("proxy-bytes-up", 1_000),
        ("proxy-bytes-down", 2_000),
        ("proxy-dial-errors-unreachable", 1),
        ("sessions-chunks-again", 5),
        ("sessions-segments-again", 22),
    ];
    StatusSnapshot {
        version: "0.1.0".to_owned(),
        uptime: Duration::from_millis(61_500),
        links: vec![
            LinkStatus {
                allowed: Some(allowed()),
                signal: Some(signal()),
                rank: Some(1),
                ..link("wwan0", 3)
            },
            link("wlan0", 2),
        ],
        connections: Some(connections()),
        session_count: 1,
        all_sessions: std::iter::once(&session()).collect(),
        counters: counters
            .map(|(name, count)| (name.to_owned(), count))
            .into(),
        memory: MemoryStatus {
            resident_bytes: ByteCount::from_mib(20),
            used_bytes: ByteCount::from_kib(64),
            limit_bytes: None,
        },
        ..StatusSnapshot::default()
    }
}

fn signal() -> SignalStatus {
    SignalStatus {
        strength: SignalStrength::new(-97).unwrap(),
        radio: Radio::Lte,
        state: SignalState::Good,
        source: SignalSource::Modem,
        leave_below: SignalStrength::new(-118).unwrap(),
    }
}

/// An active link.
pub(crate) fn link(name: &str, index: u32) -> LinkStatus {
    LinkStatus {
        name: name.to_owned(),
        index: LinkIndex::new(index),
        state: LinkState::Up,
        since_unix_ms: Some(1_795_330_800_500),
        traffic: LinkTraffic {
            up: Rate::from_bits_per_second(2_000_000),
            down: Rate::from_bits_per_second(8_000_000),
            sent_bytes: ByteCount::new(5_000_000),
            received_bytes: ByteCount::new(40_000_000),
            rtt: Some(Duration::from_micros(41_250)),
            up_loss: Some(0.001),
            queue: Some(Duration::from_millis(12)),
            cwnd_bytes: ByteCount::from_kib(100),
        },
        ..LinkStatus::default()
    }
}

/// State of connections on a link.
pub(crate) fn placing(name: &str, index: u32) -> PlacingStatus {
    PlacingStatus {
        name: name.to_owned(),
        index: LinkIndex::new(index),
        state: "suspect".to_owned(),
        up: Rate::from_bits_per_second(5_000_000),
        up_confidence: 0.5,
        open: 4,
        active: 2,
        placed: 9,
        ..PlacingStatus::default()
    }
}

fn allowed() -> LinkAllowed {
    LinkAllowed {
        up: LinkUse::Backup,
        down: LinkUse::Prefer,
        since: "2026-11-01".to_owned(),
        sent_bytes: ByteCount::new(1_000_000_000),
        received_bytes: ByteCount::new(9_000_000_000),
        allowance_bytes: Some(ByteCount::new(10_000_000_000)),
        limit: Some("stopped".to_owned()),
        cost: None,
        ..LinkAllowed::default()
    }
}

fn connections() -> ConnectionsStatus {
    ConnectionsStatus {
        scheduler: "auto".to_owned(),
        placed: 18,
        moved_over: 2,
        unanswered: 1,
        gateway: Some(GatewayStatus {
            usage: "auto".to_owned(),
            is_up: true,
            placed: 7,
            open: 2,
            latency: Some(Duration::from_millis(30)),
            ..GatewayStatus::default()
        }),
        links: vec![placing("wwan0", 3), placing("wlan0", 2)],
        ..ConnectionsStatus::default()
    }
}

fn session() -> SessionStatus {
    let channel = |state, retransmissions| ChannelStatus {
        state,
        retransmissions,
        in_flight_bytes: ByteCount::from_kib(10),
        ..ChannelStatus::default()
    };
    let path = |state| PathStatus {
        state,
        channels: vec![
            channel(ChannelState::Up, 5),
            channel(ChannelState::Suspect, 6),
        ],
        ..PathStatus::default()
    };
    let counters = [("chunks-again", 3), ("bytes-unsent", 4_000)];
    SessionStatus {
        id: "not-a-label".to_owned(),
        peer: "nor-this".to_owned(),
        state: SessionState::Established,
        unacknowledged_bytes: ByteCount::from_kib(9),
        counters: counters
            .map(|(name, count)| (name.to_owned(), count))
            .into(),
        paths: vec![path(PathState::Up), path(PathState::Dead)],
        stream_count: 11,
        ..SessionStatus::default()
    }
}
