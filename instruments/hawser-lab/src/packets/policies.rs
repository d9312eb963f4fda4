//! MMS-E3: one TCP connection as packets over links of unlike rates, by each policy.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::stage::{BULK, server};
use super::{cells, tools};
use crate::captured::{Capture, Captured, Setup};
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs, StepError};
use crate::process::output_of;
use crate::scenario::Scenario;
use crate::text_table::aligned;
use crate::topology::{Lab, SERVER};
use crate::verdict::{Asked, Verdict};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct PoliciesOptions {
    /// Seconds of each connection that count; five before them do not
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PoliciesReport {
    #[serde(flatten)]
    head: Head,
    verdicts: Vec<Verdict>,
    seconds: u64,
    /// Of a connection over each link alone, in Mbit/s.
    alone: Vec<f64>,
    policies: Vec<PolicyRow>,
    failures: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyRow {
    policy: &'static str,
    mbps: f64,
    /// Of the sum of the links alone.
    of_sum: f64,
    /// Of what packets leave of that sum for payload.
    of_payload: f64,
}

/// Measures one scenario, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &PoliciesOptions,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<PoliciesReport> {
    std::fs::create_dir_all(folder)?;
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let _server = server(&bench, SERVER, BULK)?;
    let mut report = PoliciesReport {
        head: Head::new("packet-policies", &scenario.name),
        verdicts: Vec::new(),
        seconds: options.seconds,
        alone: Vec::new(),
        policies: Vec::new(),
        failures: Vec::new(),
    };
    for link in bench.lab().links() {
        let over = ["-B".to_owned(), link.address().to_string()];
        report.alone.push(download(&bench, options.seconds, &over)?);
    }
    for policy in POLICIES {
        let folder = folder.join(policy);
        let setup = Setup {
            capture: Capture::System,
            policy,
            tcp_as_packets: true,
        };
        let by_policy = Captured::start(&bench, programs, &folder, setup)
            .and_then(|_captured| download(&bench, options.seconds, &[]));
        match by_policy {
            Ok(mbps) => report.take(policy, mbps),
            Err(error) => report.failures.push(format!("{policy}: {error}")),
        }
    }
    bench.check_emulator()?;
    Ok(report)
}

/// Goodput of one connection in Mbit/s.
fn download(bench: &Bench, seconds: u64, more: &[String]) -> Result<f64, StepError> {
    let mut command = bench.lab().client().command("iperf3");
    command.args([
        "-c",
        &SERVER.to_string(),
        "-p",
        &BULK.to_string(),
        "-R",
        "-J",
    ]);
    command.args(["-C", "cubic", "-O", &WARM_UP.to_string()]);
    command.args(["-t", &seconds.to_string()]).args(more);
    let limit = Duration::from_secs(WARM_UP + seconds) + PATIENCE;
    let text = output_of("iperf3", command, limit)?;
    tools::tcp(&text).ok_or_else(|| super::stage::unreadable("iperf3", &text))
}

impl PoliciesReport {
    fn take(&mut self, policy: &'static str, mbps: f64) {
        let of_sum = mbps / self.alone.iter().sum::<f64>();
        let row = PolicyRow {
            policy,
            mbps,
            of_sum,
            of_payload: of_sum / PAYLOAD,
        };
        eprintln!("  {row:?}");
        if matches!(policy, "ikr" | "auto") {
            let what = |of: &str| format!("tcp by {policy}: of {of}");
            let verdict = Verdict::new(
                what("the sum, as packets"),
                row.of_payload,
                Asked::AtLeast(0.95),
            );
            self.verdicts.push(verdict);
            let weighted = self.policies.iter().find(|it| it.policy == "wrr");
            if let Some(weighted) = weighted {
                let verdict = Verdict::new(what("wrr"), mbps / weighted.mbps, Asked::AtLeast(1.0));
                self.verdicts.push(verdict);
            }
        }
        self.policies.push(row);
    }
}

impl Findings for PoliciesReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!("one TCP connection (cubic), {} s each", self.seconds);
        let heads = [
            "policy",
            "",
            "Mbit/s",
            "of the sum",
            "as packets",
            "kB/s",
            "paper",
        ];
        let mut rows = vec![cells(heads)];
        let alone: Vec<_> = self.alone.iter().map(|it| format!("{it:.2}")).collect();
        rows.push(cells(["links alone", "", &alone.join(" + ")]));
        for row in &self.policies {
            rows.push(cells([
                row.policy,
                "",
                &format!("{:.2}", row.mbps),
                &format!("{:.3}", row.of_sum),
                &format!("{:.3}", row.of_payload),
                &format!("{:.0}", row.mbps * 1e3 / 8.0),
                paper(row.policy),
            ]));
        }
        self.head.title(&title) + &aligned(&rows)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// What the paper had (figure 8), in kB/s.
fn paper(policy: &str) -> &'static str {
    match policy {
        "wrr" => "ended",
        "wrrb" => "400",
        "ikr" => "520",
        _ => "",
    }
}

const POLICIES: [&str; 5] = ["wrr", "wrrb", "ikr", "least-rtt", "auto"];
/// Payload of a packet on the link by what a segment has that goes over a link alone: 1368 of 1488
/// bytes by 1448 of 1500.
const PAYLOAD: f64 = 1368.0 / 1488.0 / (1448.0 / 1500.0);
/// Seconds until TCP has found its rate.
const WARM_UP: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_best_policy_and_the_default_are_judged_by_the_sum_and_by_wrr() {
        let mut report = PoliciesReport {
            head: Head::new("packet-policies", "x"),
            verdicts: Vec::new(),
            seconds: 1,
            alone: vec![2.0, 1.0],
            policies: Vec::new(),
            failures: Vec::new(),
        };
        for (policy, mbps) in [("wrr", 2.8), ("wrrb", 1.0), ("ikr", 2.85), ("auto", 2.6)] {
            report.take(policy, mbps);
        }
        let met: Vec<_> = report.verdicts.iter().map(|it| it.met).collect();
        assert_eq!(met, [true, true, false, false], "{:?}", report.verdicts);
        assert!(report.table().contains("520"), "{}", report.table());
    }
}
