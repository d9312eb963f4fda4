//! The experiments as commands, each short, on the real kernel and with the real Hawser binary:
//! each must measure all contenders that it names. Without namespaces each test reports that and is
//! skipped.

mod common;

use std::process::Command;

use common::can_make_labs;
use hawser_capture::{Capture, RunGroup, Settings};
use hawser_skip::TestFolder;
use serde_json::Value;

#[test]
fn run_measures_every_contender_and_judges() {
    let arguments = [
        "--repeat",
        "1",
        "--seconds",
        "1",
        "--direction",
        "put",
        "--quick",
    ];
    let Some(report) = report("run", &arguments) else {
        return;
    };
    let summary = &report["summaries"][0];
    for figure in ["sum", "best-single", "mptcp", "hawser-first", "hawser-warm"] {
        // Not every kernel has MPTCP.
        let found = summary[figure].as_f64().is_some_and(|mbps| mbps > 0.0);
        assert!(found || figure == "mptcp", "{figure}: {summary}");
    }
    assert!(
        summary["payload"]
            .as_u64()
            .is_some_and(|bytes| bytes > 1_000_000)
    );
    let verdicts = list(&report["verdicts"]);
    assert!(verdicts.len() >= 5, "{verdicts:?}");
    assert_eq!(report["emulator"]["missed"], 0);
}

#[test]
fn fronted_meets_a_server_by_the_first_connection_and_bonds_the_next() {
    let arguments = [
        "--repeat",
        "1",
        "--seconds",
        "1",
        "--direction",
        "get",
        "--only",
        "tcp,hawser",
        "--quick",
    ];
    let Some(report) = report("fronted", &arguments) else {
        return;
    };
    assert_eq!(report["experiment"], "fronted");
    let summary = &report["summaries"][0];
    for figure in ["sum", "hawser-first", "hawser-warm"] {
        let found = summary[figure].as_f64().is_some_and(|mbps| mbps > 0.0);
        assert!(found, "{figure}: {summary}");
    }
    assert_eq!(summary["warm-bonded"], 1.0, "{report}");
    let verdicts = list(&report["verdicts"]);
    let names: Vec<_> = verdicts
        .iter()
        .filter_map(|it| it["what"].as_str())
        .collect();
    assert!(names.contains(&"get later: of the sum"), "{names:?}");
}

#[test]
fn failover_times_a_loss_under_load_and_at_rest() {
    let arguments = [
        "--repeat",
        "1",
        "--part",
        "3",
        "--trouble",
        "carrier-loss",
        "--load",
        "put,idle",
        "--only-hawser",
    ];
    let Some(report) = report("failover", &arguments) else {
        return;
    };
    let cases = list(&report["cases"]);
    assert_eq!(cases.len(), 2);
    for case in cases {
        assert_eq!(case["by"], "hawser");
        let sample = &case["samples"][0];
        assert_eq!(sample["link"], 1);
        let gap = sample["gap-seconds"].as_f64().unwrap();
        assert!(gap > 0.0, "{case}");
        match case["load"].as_str().unwrap() {
            // The link stays away for three seconds: a reader that waited less had its bytes over
            // the other link.
            "put" => {
                assert_eq!(sample["outcome"]["ok"], true, "{case}");
                assert!(gap < 3.0, "{case}");
            }
            // It stays away until the answer came.
            _ => assert!(sample["outcome"].is_null(), "{case}"),
        }
    }
    assert_eq!(list(&report["verdicts"]).len(), 3);
}

#[test]
fn objects_are_fetched_by_all_in_turns() {
    let arguments = ["--seconds", "1", "--least", "2", "--sizes", "20kB,100kB"];
    let Some(report) = report("objects", &arguments) else {
        return;
    };
    let groups = list(&report["groups"]);
    assert_eq!(groups.len(), 4);
    for group in groups {
        let counts: Vec<_> = list(&group["rows"])
            .iter()
            .map(|row| list(&row["samples"]).len())
            .collect();
        assert!(
            counts.len() >= 2 && counts.iter().all(|count| *count >= 2),
            "{group}"
        );
        // They take turns: none has many more than another.
        assert_eq!(counts.iter().min(), counts.iter().max(), "{group}");
    }
}

#[test]
fn an_interactive_stream_is_echoed_alone_and_beside_bulk() {
    let Some(report) = report("interactive", &["--seconds", "3", "--only-hawser"]) else {
        return;
    };
    let phases = list(&report["phases"]);
    assert_eq!(phases.len(), 3);
    for phase in phases {
        assert!(list(&phase["samples"]).len() > 20, "{phase}");
        let bulks = usize::from(!phase["bulk"].is_null());
        assert_eq!(list(&phase["bulk-mbps"]).len(), bulks, "{phase}");
    }
    assert_eq!(list(&report["verdicts"]).len(), 2);
}

#[test]
fn fairness_finds_both_on_the_link() {
    let arguments = [
        "--seconds",
        "4",
        "--repeat",
        "1",
        "--direction",
        "put",
        "--only-hawser",
        // Beside an association plain TCP is done before both are measured.
        "--transport",
        "tcp",
    ];
    let Some(report) = report("fairness", &arguments) else {
        return;
    };
    for row in list(&report["rows"]) {
        let share = &row["shares"][0];
        let of = |key: &str| share[key].as_f64().unwrap();
        let (tcp, own) = (of("tcp-mbps"), of("own-mbps"));
        // The link carries 8 Mbit/s. Each has more of it than the other's beginning and end leave
        // over, and together they fill most of it.
        assert!(tcp > 0.8 && own > 0.8, "{row}");
        assert!((6.0..8.1).contains(&(tcp + own)), "{row}");
        let jain = (tcp + own).powi(2) / (2.0 * (tcp.powi(2) + own.powi(2)));
        assert!((of("jain") - jain).abs() < 0.01, "{row}");
    }
}

#[test]
fn connections_come_and_go_by_every_way() {
    let name = "connections_come_and_go_by_every_way";
    if Command::new("nginx").arg("-v").output().is_err() {
        return hawser_skip::skip(&format!("hawser-lab::{name}"), "no nginx here");
    }
    let arguments = [
        "--seeds",
        "1",
        "--seconds",
        "2",
        "--only",
        "round-robin,auto,bonded",
        "--at-once",
        "3",
    ];
    let Some(report) = report("connections", &arguments) else {
        return;
    };
    let rows = list(&report["rows"]);
    let methods: Vec<_> = rows.iter().map(|row| row["method"].clone()).collect();
    assert_eq!(methods, ["round-robin", "auto", "bonded"]);
    for row in rows {
        assert_eq!(row["applications"], serde_json::json!(["small", "large"]));
        let trial = &row["trials"][0];
        assert_eq!(trial["unfinished"], 0, "{row}");
        let of = |key: &str| trial[key].as_f64().unwrap();
        // Each gets through, and none faster than the links are.
        assert!(of("throughput") > 1000.0, "{row}");
        assert!(of("throughput") < of("reachable") * 1.01, "{row}");
    }
}

#[test]
fn peers_are_looked_for_on_hosts_without_and_found_when_they_start() {
    let arguments = [
        "--rounds",
        "1",
        "--connections",
        "3",
        "--starts",
        "1",
        "--retry",
        "1",
    ];
    let Some(report) = report("peer", &arguments) else {
        return;
    };
    let legacy = list(&report["legacy"]);
    assert_eq!(legacy.len(), 6);
    for case in legacy {
        assert!(case["attempts"].as_u64().is_some_and(|n| n > 0), "{case}");
        for samples in ["off-samples", "auto-samples"] {
            assert_eq!(list(&case[samples]).len(), 3, "{case}");
        }
    }
    let found = &report["found"][0];
    assert!(found["bonded-after-seconds"].is_f64(), "{found}");
    assert!(found["bonded-mbps"].as_f64() > Some(0.0), "{found}");
    assert_eq!(list(&report["verdicts"]).len(), 21);
}

#[test]
fn files_and_packages_are_loaded_by_every_way() {
    let test = "files_and_packages_are_loaded_by_every_way";
    if is_without(&["nginx", "curl", "apt-get"], test) {
        return;
    }
    let arguments = ["--rounds", "2", "--tasks", "curl,apt", "--percent", "3"];
    let Some(report) = report("gain", &arguments) else {
        return;
    };
    let tasks = list(&report["tasks"]);
    assert_eq!(tasks.len(), 2);
    // Both links, round robin, the library, and the kernel where it is permitted.
    let ways = 4 + usize::from(report["no-kernel"].is_null());
    for task in tasks {
        assert_eq!(list(&task["ways"]).len(), ways, "{task}");
        for way in list(&task["ways"]) {
            assert_eq!(list(&way["samples"]).len(), 2, "{way}");
            let carried = |link: usize| {
                let links = list(&way["samples"]).iter();
                let links = links.map(|sample| sample["carried"][link]["down"].as_u64());
                links.map(Option::unwrap).sum::<u64>()
            };
            match way["way"].as_str().unwrap() {
                "link 1" => assert!(carried(1) < 1_000, "{way}"),
                "link 2" => assert!(carried(0) < 1_000, "{way}"),
                // By its own choice Hawser may give one link all of apt's four small connections,
                // as time would have it; in turns it may not.
                "shim" | "kernel" if task["task"] == "apt" => {
                    assert!(carried(0) + carried(1) > 20_000, "{way}");
                }
                _ => assert!(carried(0) > 10_000 && carried(1) > 10_000, "{way}"),
            }
        }
    }
    // First and later, over the best link and over round robin.
    assert_eq!(list(&report["verdicts"]).len(), 2 * (ways - 3) * 4);
}

#[test]
fn a_browser_loads_a_page_with_a_hundred_parts() {
    let test = "a_browser_loads_a_page_with_a_hundred_parts";
    if is_without(&["nginx", "chromium"], test) {
        return;
    }
    let mut arguments = vec!["--rounds", "1", "--tasks", "page", "--percent", "5"];
    arguments.extend(["--only", "links,shim"]);
    let Some(report) = report("gain", &arguments) else {
        return;
    };
    let ways = list(&report["tasks"][0]["ways"]);
    assert_eq!(ways.len(), 3);
    for way in ways {
        assert!(way["first-seconds"].as_f64().unwrap() > 0.05, "{way}");
    }
}

#[test]
fn a_lost_link_costs_only_what_was_on_it_in_each_way() {
    let name = "a_lost_link_costs_only_what_was_on_it_in_each_way";
    let capture = RunGroup::create()
        .and_then(|group| Capture::start(group.path(), &Settings::default()).map(drop));
    if let Err(error) = capture {
        return hawser_skip::skip(&format!("lab::{name}"), &error.to_string());
    }
    let size = [
        "--open", "40", "--rate", "50", "--lead", "2", "--after", "4",
    ];
    for (way, cut) in [("kernel", "silent"), ("shim", "carrier")] {
        let which = ["--ways", way, "--cuts", cut];
        let Some(report) = report("cut", &[&which[..], &size].concat()) else {
            return;
        };
        let case = &report["cases"][0];
        // The time until no connection is caught any more is recorded, and not asserted: it is over
        // long before this.
        let number = |visit: &Value, place: usize| visit[place].as_f64().unwrap();
        let all = list(&case["visits"]).iter();
        let late: Vec<_> = all.filter(|visit| number(visit, 0) > 2.5).collect();
        assert!(late.len() >= 20, "{case}");
        assert!(late.iter().all(|visit| number(visit, 2) > 0.0), "{case}");
        assert_eq!(case["caught"]["untold"], 0, "{case}");
        // Half of them are on each link.
        assert_eq!(
            (&case["old"]["living"], &case["old"]["lost"]),
            (&20.into(), &20.into())
        );
        assert_eq!(case["old"]["broken"], 0, "{case}");
        assert_eq!(list(&report["verdicts"]).len(), 4);
    }
}

#[test]
fn watchers_are_counted_and_transfers_go_on_beside_them() {
    let arguments = [
        "--rounds",
        "1",
        "--seconds",
        "2",
        "--direction",
        "get",
        "--rate",
        "20",
    ];
    let Some(report) = report("watchers", &arguments) else {
        return;
    };
    let cases = list(&report["cases"]);
    let crowds: Vec<_> = cases.iter().map(|case| case["crowd"].clone()).collect();
    assert_eq!(crowds, ["stalled", "page", "flood"]);
    for case in cases {
        assert!(case["of-without"].as_f64() > Some(0.0), "{case}");
        assert_eq!(list(&case["with"]["samples"]).len(), 1, "{case}");
    }
    let answers = |case: usize, what: &str| {
        let count = &cases[case]["seen"]["answers"][what];
        count.as_u64().unwrap_or(0)
    };
    assert_eq!(cases[0]["seen"]["most-feeds"], 16, "{}", cases[0]);
    assert!(answers(0, "feed: 503") > 0, "{}", cases[0]);
    assert!(
        cases[1]["seen"]["bytes"].as_u64() > Some(1_000),
        "{}",
        cases[1]
    );
    assert_eq!(answers(1, "feed: 200"), 1, "{}", cases[1]);
    assert!(answers(2, "wrong token: 401") > 0, "{}", cases[2]);
    assert!(answers(2, "other host: 403") > 0, "{}", cases[2]);
    assert!(answers(2, "long body: 413") > 0, "{}", cases[2]);
    // What a crowd may take is bounded; how fast transfers were is not asserted.
    let verdicts = list(&report["verdicts"]).iter();
    let bounds =
        verdicts.filter(|verdict| !verdict["what"].as_str().unwrap().ends_with("of without"));
    let bounds: Vec<_> = bounds.collect();
    assert_eq!(bounds.len(), 8);
    assert!(
        bounds.iter().all(|verdict| verdict["met"] == true),
        "{bounds:?}"
    );
}

/// A few cells of the matrix: those that last for seconds. Times are recorded, not judged.
#[test]
fn cells_of_the_matrix_end_as_expected() {
    if !can_make_labs("cells_of_the_matrix_end_as_expected") {
        return;
    }
    let cells = [
        "rebinding/put/tcp",
        "up-dead/get/sctp",
        "address-change/get/auto",
        "options-dropped/put/sctp",
        "gateway-killed/rest/tcp",
    ];
    let folder = TestFolder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_hawser-lab"))
        .args(["matrix", "--json", "--jobs", "5"])
        .args(["--only", &cells.join(",")])
        .arg("--logs")
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list(&report["cells"]).len(), cells.len());
    for cell in list(&report["cells"]) {
        assert_eq!(cell["connection"], cell["expected"], "{cell}");
        let lines = usize::from(cell["is-said"] == true);
        assert_eq!(list(&cell["said"]).len(), lines, "{cell}");
        println!("{}: {} s", cell["name"], cell["recovery-seconds"]);
    }
}

/// Runs an experiment on two links, and gives its report; nothing where the machine forbids labs.
fn report(experiment: &str, arguments: &[&str]) -> Option<Value> {
    if !can_make_labs(experiment) {
        return None;
    }
    let folder = TestFolder::new();
    let scenario = folder.path().join("two.toml");
    std::fs::write(&scenario, TWO_LINKS).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hawser-lab"))
        .arg(experiment)
        .arg(&scenario)
        .args(arguments)
        .args(["--json", "--out"])
        .arg(folder.path())
        .arg("--logs")
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let command = report["command"].as_str().unwrap();
    let place = folder.path().to_string_lossy();
    assert!(!command.contains(place.as_ref()), "{command}");
    let kept = folder.path().join(format!("{experiment}-two.json"));
    let kept: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(kept, report);
    Some(report)
}

/// Whether one of the programs is missing; then the test is recorded as skipped.
fn is_without(programs: &[&str], test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here =
        |program: &&&str| std::env::split_paths(&path).any(|it| it.join(program).is_file());
    let Some(missing) = programs.iter().find(|program| !is_here(program)) else {
        return false;
    };
    hawser_skip::skip(&format!("commands::{test}"), &format!("no {missing} here"));
    true
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

const TWO_LINKS: &str = r#"
payload = "1MB"
[[link]]
rate = "8Mbit/s"
delay = "5ms"
queue = "60ms"
[[link]]
rate = "5Mbit/s"
delay = "10ms"
queue = "100ms"
[workload]
span = "10s"
[[workload.application]]
name = "small"
class = "interactive"
size = "20kB"
per-second = 10
[[workload.application]]
name = "large"
class = "bulk"
size = "500kB"
at-start = 1
"#;
