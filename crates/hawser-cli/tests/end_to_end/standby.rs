//! Links on standby, with the distribution's NetworkManager on a bus of the test: it manages a link
//! of the namespace, which stands for a modem's.

mod stage;

use hawser_skip::namespace::ip;
use serde_json::Value;

use super::program::until;
use stage::{has_address, with_service, with_stage};

#[test]
fn a_link_is_connected_before_the_only_other_one_goes_and_disconnected_at_the_end() {
    let name =
        "standby::a_link_is_connected_before_the_only_other_one_goes_and_disconnected_at_the_end";
    with_stage(name, |stage| {
        let up = stage.up();
        until("it waits", || stage.standby() == "waiting", || up.log());
        assert_ne!(stage.link("lte")["state"], "up");

        stage.say("link dsl --signal -84dBm");
        until(
            "it is connected",
            || stage.standby() == "connected",
            || up.log(),
        );
        until(
            "it is used",
            || stage.link("lte")["state"] == "up",
            || up.log(),
        );
        assert_eq!(
            stage.link("dsl")["state"],
            "up",
            "made before the other breaks"
        );
        let is_best = || stage.link("lte")["rank"] == 1;
        until("it is the best", is_best, || up.log());
        let shown = stage.say("links");
        let expected = "lte is connected, because no other link was well";
        assert!(shown.contains(expected), "{shown}");
        let is_told = || stage.say("events").contains(expected);
        until("it is told", is_told, || up.log());

        stage.say("link dsl --signal -50dBm");
        let is_good = || stage.link("dsl")["signal"]["state"] == "good";
        until("the other is well", is_good, || up.log());
        assert_eq!(stage.standby(), "connected", "for the time being");
        up.end();
        let is_off = || !has_address("lte");
        until("it is disconnected", is_off, String::new);
    });
}

#[test]
fn what_the_user_connects_or_disconnects_by_hand_stays_so() {
    let name = "standby::what_the_user_connects_or_disconnects_by_hand_stays_so";
    with_stage(name, |stage| {
        let up = stage.up();
        stage.say("link dsl --signal -84dBm");
        until(
            "it is connected",
            || stage.standby() == "connected",
            || up.log(),
        );
        stage.nmcli("device disconnect lte");
        until(
            "that is seen",
            || stage.standby() == "dismissed",
            || up.log(),
        );
        stage.nmcli("connection up Mobile");
        until(
            "that is seen",
            || stage.standby() == "by-others",
            || up.log(),
        );
        stage.say("link dsl --signal -50dBm");
        up.end();
        assert!(has_address("lte"), "it is the user's");
    });
}

#[test]
fn a_link_is_connected_when_the_only_other_one_is_gone_where_the_user_allows_that() {
    let name =
        "standby::a_link_is_connected_when_the_only_other_one_is_gone_where_the_user_allows_that";
    with_stage(name, |stage| {
        let up = stage.up_with("", |_| ());
        assert_eq!(stage.link("lte")["standby"], Value::Null);
        up.end();
        let up = stage.up();
        until("it waits", || stage.standby() == "waiting", || up.log());
        ip("link set dsl down");
        until(
            "it is connected",
            || stage.standby() == "connected",
            || up.log(),
        );
        up.end();
        assert!(has_address("lte"), "it is all there is");
    });
}

#[test]
fn a_network_manager_that_ends_and_begins_anew_is_asked_again() {
    let name = "standby::a_network_manager_that_ends_and_begins_anew_is_asked_again";
    with_stage(name, |stage| {
        let up = stage.up();
        until("it waits", || stage.standby() == "waiting", || up.log());
        stage.end_manager();
        let doctor = stage.doctor();
        assert!(
            doctor.contains("warn  standby: NetworkManager does not run"),
            "{doctor}"
        );
        stage.say("link dsl --signal -84dBm");
        until(
            "it is missed",
            || stage.standby() == "unavailable",
            || up.log(),
        );
        stage.start_manager();
        until(
            "it is connected",
            || stage.standby() == "connected",
            || up.log(),
        );
        let doctor = stage.doctor();
        assert!(
            doctor.contains("ok    standby: NetworkManager has lte"),
            "{doctor}"
        );
        up.end();
    });
}

#[test]
fn a_service_that_is_not_root_connects_links_where_polkits_rules_let_it() {
    let name = "standby::a_service_that_is_not_root_connects_links_where_polkits_rules_let_it";
    with_service(name, |stage| {
        let up = stage.up_as_service();
        let is_refused = || stage.standby() == "unavailable";
        until("it is refused", is_refused, || stage.logs(&up));
        let expected = "NetworkManager does not let this user connect links";
        let shown = stage.say("links");
        assert!(shown.contains(expected), "{shown}");
        let (doctor, expected) = (
            stage.doctor(),
            format!("warn  standby: lte is on standby, and cannot be connected: {expected}"),
        );
        assert!(doctor.contains(&expected), "{doctor}");

        stage.let_the_service_connect();
        let may = || stage.standby() == "waiting";
        until("it may", may, || stage.logs(&up));
        stage.say("link dsl --signal -84dBm");
        let is_connected = || stage.standby() == "connected";
        until("it is connected", is_connected, || stage.logs(&up));
        stage.say("link dsl --signal -50dBm");
        let is_good = || stage.link("dsl")["signal"]["state"] == "good";
        until("the other is well", is_good, || up.log());
        up.end();
        let is_off = || !has_address("lte");
        until("it is disconnected", is_off, String::new);
    });
}

/// NetworkManager asks the distribution's polkit before it answers, and polkit is slow.
#[test]
fn a_link_whose_connection_is_told_late_is_taken_over() {
    let name = "standby::a_link_whose_connection_is_told_late_is_taken_over";
    with_service(name, |stage| {
        stage.let_the_service_connect();
        let up = stage.up_as_service();
        let may = || stage.standby() == "waiting";
        until("it may", may, || stage.logs(&up));
        stage.signal_polkit("-STOP");
        stage.say("link dsl --signal -84dBm");
        let has_failed = || stage.link("lte")["standby"]["reason"] == "no answer within 5s";
        until("it counts as failed", has_failed, || stage.logs(&up));
        stage.signal_polkit("-CONT");
        let is_connected = || stage.standby() == "connected";
        until("it is connected", is_connected, || stage.logs(&up));
        stage.say("link dsl --signal -50dBm");
        let is_good = || stage.link("dsl")["signal"]["state"] == "good";
        until("the other is well", is_good, || up.log());
        up.end();
        let is_off = || !has_address("lte");
        until("it is disconnected", is_off, String::new);
    });
}
