//! `bench` and `doctor`.

use serde_json::Value;

use super::program::Place;

#[test]
fn bench_measures_each_link_and_all_together() {
    let place = Place::new();
    place
        .run("client", &["bench"])
        .expect(1, "no gateway is enrolled");
    let _gateway = place.serve();
    let up = place.up("client", &["--gateway", &place.invite()]);
    // Beside the daemon that runs.
    let ended = place.run("client", &["bench", "--json", "--size", "3MB"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["links"][0]["name"], "lo");
    for measured in [&report["links"][0], &report["together"]] {
        assert!(measured["up_bps"].as_u64().unwrap() > 0, "{report}");
        assert!(measured["down_bps"].as_u64().unwrap() > 0, "{report}");
    }
    assert!(report["up_utilisation"].as_f64().unwrap() > 0.0);
    up.end();
}

#[test]
fn doctor_finds_the_gateway_and_says_when_it_is_gone() {
    let place = Place::new();
    let gateway = place.serve();
    place.up("client", &["--gateway", &place.invite()]).end();
    let look = || {
        let ended = place.run("client", &["doctor", "--json"]);
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        let checks = report["checks"].as_array().unwrap().clone();
        let failed = checks.iter().any(|check| check["status"] == "fail");
        assert_eq!(ended.code, i32::from(failed), "{ended:?}");
        let named = |check: &&Value| check["name"] == "gateway on this machine";
        checks.iter().find(named).unwrap()["status"].clone()
    };
    assert_eq!(look(), "ok");
    gateway.end();
    assert_eq!(look(), "fail");
}
