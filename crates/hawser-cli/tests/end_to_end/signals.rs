//! Signals of links: traffic of every kind leaves a link before the link is lost.

use hawser_skip::namespace::{in_namespace, in_namespace_of_root, ip};
use serde_json::Value;

use super::internet::Internet;
use super::packet_flows::{carried, echoes};
use super::program::until;
use super::steering::{Scene, Stage, Transfer, told};

/// Returns the links of the next connections.
fn next(stage: &Stage) -> Vec<String> {
    let placed = stage.next(4).into_iter();
    placed
        .map(|it| it["link"].as_str().unwrap().to_owned())
        .collect()
}

fn of_link(stage: &Stage, name: &str) -> Value {
    let status = stage.place.status("client").unwrap();
    let links = status["links"].as_array().unwrap().iter();
    links.clone().find(|it| it["name"] == name).unwrap().clone()
}

#[test]
fn connections_take_another_link_while_a_signal_fades_and_come_back() {
    let name = "signals::connections_take_another_link_while_a_signal_fades_and_come_back";
    told(name, |stage| {
        stage.say("policy set --connection-scheduler round-robin");
        stage.say("link dsl --signal -79dBm");
        assert!(
            next(stage).contains(&"dsl".to_owned()),
            "{}",
            stage.up.log()
        );
        stage.say("link dsl --signal -81dBm");
        assert_eq!(next(stage), ["lte"; 4], "{}", stage.up.log());

        let dsl = of_link(stage, "dsl");
        assert_eq!((&dsl["state"], &dsl["reason"]), (&"up".into(), &WHY.into()));
        assert_eq!(dsl["signal"]["state"], "fading", "{dsl}");
        let links = stage.say("links");
        assert!(links.contains("dsl: its signal fades (-81dBm)"), "{links}");
        let is_told = || {
            stage
                .say("events")
                .contains("the signal of dsl is fading (-81dBm)")
        };
        until("it is told", is_told, || stage.up.log());

        // A link in reserve is better than one that is about to go.
        stage.say("link lte --use backup");
        assert_eq!(next(stage), ["lte"; 4]);
        stage.say("link lte --use never");
        assert_eq!(next(stage), ["dsl"; 4], "better than nothing");
        stage.say("link lte --use normal");

        stage.say("link dsl --signal -60dBm");
        let is_back = || next(stage).contains(&"dsl".to_owned());
        until("it is back", is_back, || stage.up.log());
        assert_eq!(of_link(stage, "dsl")["signal"]["state"], "good");
        stage.say("link dsl --signal off");
        assert_eq!(of_link(stage, "dsl")["signal"], Value::Null);
        let wrong = stage
            .place
            .run("client", &["link", "dsl", "--signal", "loud"]);
        wrong.expect(2, "give one from -160dBm to 0dBm, such as -80dBm");
    });
}

#[test]
fn a_link_that_comes_back_is_judged_anew() {
    let name = "signals::a_link_that_comes_back_is_judged_anew";
    told(name, |stage| {
        stage.say("link dsl --signal -95dBm");
        assert_eq!(of_link(stage, "dsl")["signal"]["state"], "lost");
        ip("link set dsl down");
        let is_forgotten = || of_link(stage, "dsl")["signal"].is_null();
        until("it is forgotten", is_forgotten, || stage.up.log());
        ip("link set dsl up");
        let is_up = || of_link(stage, "dsl")["state"] != "down";
        until("it is back", is_up, || stage.up.log());
        assert_eq!(of_link(stage, "dsl")["signal"], Value::Null);
    });
}

#[test]
fn a_transfer_has_left_a_link_at_both_ends_before_it_goes() {
    let name = "signals::a_transfer_has_left_a_link_at_both_ends_before_it_goes";
    in_namespace(name, || {
        let scene = Scene::new();
        let up = scene.up();
        let transfer = Transfer::begin(&up, &scene);
        transfer.until_it_has_moved(&up);
        scene.set(&["link", "dsl", "--signal", "-84dBm"]);
        let excluded = |session: Value| {
            let paths = session["paths"].as_array().cloned().unwrap_or_default();
            let excluded = paths.into_iter().filter(|it| it["standing"] == "excluded");
            let reasons = excluded.map(|it| it["reason"].as_str().unwrap_or("").to_owned());
            reasons.collect::<Vec<_>>()
        };
        assert_eq!(excluded(scene.session()), ["its signal fades"]);
        let is_told = || excluded(scene.far_session()) == ["its signal fades"];
        until("the gateway has left it too", is_told, || up.log());
        transfer.until_it_has_moved(&up);
        ip("link set dsl down");
        transfer.until_it_has_moved(&up);
        transfer.end();
        up.end();
    });
}

#[test]
fn packets_have_left_a_link_before_it_goes_and_none_is_lost() {
    let test = "signals::packets_have_left_a_link_before_it_goes_and_none_is_lost";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        let gateway = net.serve();
        let client = net.up(&["--gateway", &net.place.invite()]);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        let sending = net.begin(NUMBERED);
        let flow = || echoes(&net.place, "client", "udp").unwrap_or_default();
        let on = |link: &str| carried(&flow(), link);
        until("it goes over a link", || on("dsl") + on("lte") > 5000, log);
        let (fading, other) = if on("dsl") > on("lte") {
            ("dsl", "lte")
        } else {
            ("lte", "dsl")
        };
        let signal = ["link", fading, "--signal", "-85dBm"];
        let set = net.place.run("client", &signal);
        assert_eq!(set.code, 0, "{set:?}");
        // Both directions: while the other link carries so many more, this one carries none.
        let has_left = || {
            let (before, begun) = (on(fading), on(other));
            until("the other link has it", || on(other) > begun + 5000, log);
            on(fading) == before
        };
        until("it has left", has_left, log);
        // Not by its carrier: the gateway's end would lose it, too, and with it an address that the
        // other link may lead to.
        ip(&format!("address flush dev {fading}"));
        let begun = on(other);
        until("it goes on", || on(other) > begun + 5000, log);
        std::fs::write(net.done(), "").unwrap();
        let output = sending.wait_with_output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output, "0 lost\n", "{}", log());
    });
}

const WHY: &str = "its signal fades (-81dBm)";
/// Numbered datagrams that are sent back, until a file exists; prints how many were lost.
const NUMBERED: &str = "
s = udp()
s.connect(('11.0.0.2', 7))
s.settimeout(0.01)
open_ones, number = set(), 0
def take():
    try:
        open_ones.discard(int(s.recv(100)))
    except OSError:
        pass
while not os.path.exists('DONE'):
    number += 1
    open_ones.add(number)
    s.send(b'%100d' % number)
    take()
patience = time.monotonic() + 20
while open_ones and time.monotonic() < patience:
    take()
print('lost of', number, sorted(open_ones), file=sys.stderr)
print(len(open_ones), 'lost')
";
