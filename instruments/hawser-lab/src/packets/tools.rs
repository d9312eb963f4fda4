//! Parsing of the output of iperf3 and ping.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

/// One flow of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Udp {
    /// Payload that arrived.
    pub(super) mbps: f64,
    /// Share of packets that did not arrive.
    pub(super) lost: f64,
    /// Packets that arrived after later ones.
    pub(super) disordered: u64,
    pub(super) jitter_ms: f64,
}

/// Echoes that were asked for at equal intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Echoes {
    /// Round trips in seconds, of those that were answered.
    pub(super) round_trips: Vec<f64>,
    /// Number of the most unanswered in a row, the ones at the end left out.
    pub(super) missing_in_a_row: u32,
}

/// Tells whether iperf3 has measured nothing, since its server did not take the client.
pub(super) fn is_refused(report: &str) -> bool {
    let report: Result<Value, _> = serde_json::from_str(report);
    report.is_ok_and(|report| report["error"].is_string() && report["intervals"] == json!([]))
}

/// Reads the goodput of one TCP connection, in Mbit/s.
pub(super) fn tcp(report: &str) -> Option<f64> {
    let report: Value = serde_json::from_str(report).ok()?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64()?;
    Some(bits / 1e6)
}

/// Reads the goodput of one TCP connection in Mbit/s, and its bytes.
pub(super) fn tcp_total(report: &str) -> Option<(f64, f64)> {
    let parsed: Value = serde_json::from_str(report).ok()?;
    let bytes = parsed["end"]["sum_received"]["bytes"].as_f64()?;
    Some((tcp(report)?, bytes))
}

/// Reads what the receiver of a UDP flow has counted.
pub(super) fn udp(report: &str) -> Option<Udp> {
    let report: Value = serde_json::from_str(report).ok()?;
    let (flow, end) = (&report["end"]["streams"][0]["udp"], &report["end"]["sum"]);
    let (lost, packets) = (end["lost_packets"].as_f64()?, end["packets"].as_f64()?);
    let share = lost / packets.max(1.0);
    Some(Udp {
        mbps: end["bits_per_second"].as_f64()? / 1e6 * (1.0 - share),
        lost: share,
        disordered: flow["out_of_order"].as_u64()?,
        jitter_ms: end["jitter_ms"].as_f64()?,
    })
}

/// Reads the lines of ping.
pub(super) fn echoes(text: &str) -> Echoes {
    let mut echoes = Echoes::default();
    let mut last = 0;
    for line in text.lines() {
        let field = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split_whitespace().next()
        };
        let number = field("icmp_seq=").and_then(|it| it.parse::<u32>().ok());
        let time = field("time=").and_then(|it| it.parse::<f64>().ok());
        if let (Some(number), Some(millis)) = (number, time) {
            let missing = number.saturating_sub(last + 1);
            echoes.missing_in_a_row = echoes.missing_in_a_row.max(missing);
            last = last.max(number);
            echoes.round_trips.push(millis / 1e3);
        }
    }
    echoes
}

impl Echoes {
    /// The longest time without an answer.
    pub(super) fn gap(&self, interval: Duration) -> Duration {
        interval * (self.missing_in_a_row + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_iperf3_are_read() {
        let report = r#"{"end": {
            "streams": [{"udp": {"out_of_order": 3}}],
            "sum": {"bits_per_second": 8e6, "lost_packets": 5, "packets": 100, "jitter_ms": 0.5},
            "sum_received": {"bits_per_second": 9e6, "bytes": 7}
        }}"#;
        let expected = Udp {
            mbps: 7.6,
            lost: 0.05,
            disordered: 3,
            jitter_ms: 0.5,
        };
        assert_eq!((udp(report), tcp(report)), (Some(expected), Some(9.0)));
        assert_eq!((udp("no"), tcp("{}")), (None, None));
        assert_eq!(tcp_total(report), Some((9.0, 7.0)));
    }

    #[test]
    fn a_server_that_is_busy_is_told_from_a_transfer_that_failed() {
        let busy = r#"{"intervals": [], "error": "the server is busy running a test"}"#;
        let broken = r#"{"intervals": [{}], "error": "unable to receive results"}"#;
        assert!(is_refused(busy));
        assert!(!is_refused(broken) && !is_refused("{}") && !is_refused("no"));
    }

    #[test]
    fn the_longest_row_of_missing_echoes_is_found() {
        let text = "180 bytes from 10.99.0.1: icmp_seq=1 ttl=64 time=20.5 ms\n\
                    180 bytes from 10.99.0.1: icmp_seq=2 ttl=64 time=21 ms\n\
                    180 bytes from 10.99.0.1: icmp_seq=7 ttl=64 time=30 ms\n\
                    180 bytes from 10.99.0.1: icmp_seq=6 ttl=64 time=130 ms (DUP!)\n\
                    statistics";
        let echoes = echoes(text);
        assert_eq!(echoes.round_trips, [0.0205, 0.021, 0.03, 0.13]);
        assert_eq!(echoes.missing_in_a_row, 4);
        assert_eq!(
            echoes.gap(Duration::from_millis(10)),
            Duration::from_millis(50)
        );
    }
}
