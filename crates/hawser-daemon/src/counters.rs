//! Counters of all kinds as one flat list.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Adds the counters in `stats` to `list`, each name prefixed with `prefix`; counters by reason get
/// names such as `prefix-name-reason`.
pub(crate) fn flat(list: &mut BTreeMap<String, u64>, prefix: &str, stats: &impl Serialize) {
    match serde_json::to_value(stats) {
        Ok(value) => collect(list, prefix, &value),
        Err(error) => tracing::debug!(%error, prefix, "counters can't be listed"),
    }
}

fn collect(list: &mut BTreeMap<String, u64>, name: &str, value: &Value) {
    match value {
        Value::Number(number) => {
            list.insert(name.to_owned(), number.as_u64().unwrap_or(0));
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                collect(list, &format!("{name}-{field}"), value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use hawser_control::StatusSnapshot;
    use hawser_front::gateway::GatewayStats;
    use hawser_front::proxy::ProxyStats;
    use hawser_monitor::metrics::render;
    use hawser_types::ByteCount;

    use super::*;

    #[test]
    fn counts_by_reason_get_names_of_their_own() {
        let stats = serde_json::json!({"accepted": 3, "refused": {"policy": 2}, "note": "x"});
        let mut list = BTreeMap::new();
        flat(&mut list, "door", &stats);
        let expected = [("door-accepted", 3), ("door-refused-policy", 2)];
        assert_eq!(list, expected.map(|(k, v)| (k.to_owned(), v)).into());
    }

    #[test]
    fn metrics_know_by_their_names_which_of_them_are_no_events() {
        let proxy = ProxyStats {
            current: 3,
            associations: 4,
            bytes_up: ByteCount::new(10),
            bytes_down: ByteCount::new(20),
            ..ProxyStats::default()
        };
        let gateway = GatewayStats {
            current: 5,
            bytes_up: ByteCount::new(1),
            bytes_down: ByteCount::new(2),
            ..GatewayStats::default()
        };
        let mut snapshot = StatusSnapshot::default();
        flat(&mut snapshot.counters, "proxy", &proxy);
        flat(&mut snapshot.counters, "gateway", &gateway);
        flat(&mut snapshot.counters, "front", &gateway);
        let text = render(&snapshot);
        for sample in [
            "hawser_proxy_connections 3",
            "hawser_proxy_associations 4",
            "hawser_relay_streams 5",
            "hawser_fronted_streams 5",
            "hawser_relayed_bytes_total{direction=\"up\"} 12",
            "hawser_relayed_bytes_total{direction=\"down\"} 24",
            "hawser_events_total{event=\"gateway-opened\"} 0",
        ] {
            assert!(
                text.lines().any(|line| line == sample),
                "{sample} in {text}"
            );
        }
    }
}
