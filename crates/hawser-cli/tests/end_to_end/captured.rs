//! `hawser up --capture`: programs that know nothing of it, over two real links.

use std::process::Command;

use hawser_capture::{CaptureError, RunGroup};
use hawser_skip::namespace::{Neighbour, in_namespace_of_root};

use super::connections::{serve_web, two_links};
use super::program::{Place, until};

#[test]
fn programs_in_a_captured_group_use_both_links_until_the_daemon_is_killed() {
    let name = "captured::programs_in_a_captured_group_use_both_links_until_the_daemon_is_killed";
    in_namespace_of_root(name, || {
        let group = match RunGroup::create() {
            Ok(group) => group,
            Err(error @ (CaptureError::NoControlGroups | CaptureError::NotPermitted(_))) => {
                return hawser_skip::skip(name, &error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        let (place, neighbour) = (Place::new(), two_links());
        serve_web(&neighbour);
        let scope = format!("cgroup:{}", group.path().display());
        let arguments = ["up", "--listen", "127.0.0.1:0", "--capture", scope.as_str()];
        let policy = ["--connection-scheduler", "round-robin"];
        let daemon = place.start("client", &[&arguments[..], &policy].concat());
        let is_known = || from(&group, SERVER) == LTE;
        until("the links are in the kernel's table", is_known, || {
            daemon.log()
        });
        assert_eq!([(); 4].map(|()| from(&group, SERVER)), [DSL, LTE, DSL, LTE]);
        // A network on a link is reached by that link alone.
        assert_eq!([(); 2].map(|()| from(&group, "10.2.0.1")), [LTE, LTE]);
        let all_placed = || {
            let status = &place.status("client").unwrap()["connections"];
            let links = status["links"].as_array().unwrap();
            links
                .iter()
                .all(|link| link["placed"].as_u64() >= Some(2) && link["open"] == 0)
        };
        until("the daemon has heard of all", all_placed, || daemon.log());
        gone(&neighbour, &group);
        neighbour.ip("link set lte up");
        until("lte is back", is_known, || daemon.log());
        daemon.kill();
        assert_eq!(
            [(); 3].map(|()| from(&group, SERVER)),
            [DSL; 3],
            "as without"
        );
    });
}

/// A link without a carrier takes no more of them.
fn gone(neighbour: &Neighbour, group: &RunGroup) {
    neighbour.ip("link set lte down");
    until(
        "lte is left out",
        || [(); 3].map(|()| from(group, SERVER)) == [DSL; 3],
        String::new,
    );
}

/// The address that curl has in the group as it asks a server.
fn from(group: &RunGroup, server: &str) -> String {
    let mut curl = Command::new("curl");
    let url = format!("http://{server}:81/204");
    curl.args([
        "-s",
        "-o",
        "/dev/null",
        "-m",
        "5",
        "-w",
        "%{local_ip}",
        &url,
    ]);
    group.enter(&mut curl).unwrap();
    String::from_utf8(curl.output().unwrap().stdout).unwrap()
}

const SERVER: &str = "10.99.0.1";
const DSL: &str = "10.1.0.2";
const LTE: &str = "10.2.0.2";
