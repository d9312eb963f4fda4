//! The report as text.

use super::report::{ConnectReport, Kind, Phase};
use crate::statistics::Spread;
use crate::text_table::aligned;

pub(super) fn render(report: &ConnectReport) -> String {
    let header = [
        "connection",
        "number",
        "may send, ms",
        "p99",
        "in RTT",
        "over TCP",
        "asked",
        "answer, ms",
        "p99",
        "in RTT",
        "over TCP",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let plain = report.phases.iter().find(|phase| phase.kind == Kind::Tcp);
    rows.extend(report.phases.iter().map(|phase| row(report, phase, plain)));
    let mut text = report.head.title(&format!(
        "from connecting to the first byte that may be sent, and to the first one that comes back; \
         medians; RTT of the best link ({}) {:.1} ms",
        report.best_link,
        report.base_rtt_seconds * 1e3
    ));
    text.push_str(&aligned(&rows));
    for phase in &report.phases {
        if phase.refused > 0 {
            let (name, refused) = (phase.kind.name(), phase.refused);
            text.push_str(&format!("{name}: {refused} attempts were refused before\n"));
        }
    }
    text
}

fn row(report: &ConnectReport, phase: &Phase, plain: Option<&Phase>) -> Vec<String> {
    let mut cells = vec![
        phase.kind.name().to_owned(),
        phase.samples.len().to_string(),
    ];
    let asked = match phase.kind {
        Kind::Fresh => "2 over TCP",
        Kind::Warm => "1",
        Kind::Tcp | Kind::GatewayRestarted => "",
    };
    let plain_connected = plain.and_then(|plain| plain.connected_seconds);
    cells.extend(times(report, phase.connected_seconds, plain_connected));
    cells.push(asked.to_owned());
    let plain_answered = plain.and_then(|plain| plain.answered_seconds);
    cells.extend(times(report, phase.answered_seconds, plain_answered));
    cells
}

/// Median and p99 in milliseconds, then the median in round trips, and that over plain TCP's.
fn times(report: &ConnectReport, own: Option<Spread>, plain: Option<Spread>) -> [String; 4] {
    let Some(own) = own else {
        return ["-"; 4].map(str::to_owned);
    };
    // Links without delay have no round trip to count in.
    let trips = |seconds: f64| {
        if report.base_rtt_seconds > 0.0 {
            format!("{:.2}", seconds / report.base_rtt_seconds)
        } else {
            "-".to_owned()
        }
    };
    [
        format!("{:.1}", own.median * 1e3),
        format!("{:.1}", own.p99 * 1e3),
        trips(own.median),
        plain.map_or("-".to_owned(), |plain| trips(own.median - plain.median)),
    ]
}
