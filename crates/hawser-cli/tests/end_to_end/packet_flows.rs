//! Flows of packets, in the views of both ends.

use hawser_skip::namespace::{in_namespace_of_root, ip};
use serde_json::Value;

use super::internet::Internet;
use super::program::{Place, until};

/// The flow to the server's echo, as a daemon shows it.
pub(crate) fn echoes(place: &Place, daemon: &str, protocol: &str) -> Option<Value> {
    let status = place.status(daemon)?;
    let sessions = status["sessions"].as_array()?.iter();
    let mut flows = sessions
        .filter_map(|it| it["packet_flows"].as_array())
        .flatten();
    let is_it = |it: &&Value| it["protocol"] == protocol && it["destination"] == "11.0.0.2:7";
    flows.find(is_it).cloned()
}

/// Bytes that each link has carried of a flow, in both directions.
pub(crate) fn carried(flow: &Value, link: &str) -> u64 {
    let links = flow["links"].as_array().into_iter().flatten();
    let own = links.filter(|it| it["link"] == link);
    let bytes =
        |it: &Value| it["bytes_sent"].as_u64().unwrap() + it["bytes_received"].as_u64().unwrap();
    own.map(bytes).sum()
}

/// The gateway gives the reasons for the routes of its answers, with the names of links here. Data
/// on a path before its link was announced has no name.
fn the_gateway_tells_its_reasons(net: &Internet, log: &impl Fn() -> String) {
    let report = || net.place.run("client", &["why", "--json"]).out;
    let is_told = || {
        let report: Value = serde_json::from_str(&report()).unwrap();
        let told = &report["sessions"][0]["received"]["packet_flows"];
        let mut told = told.as_array().into_iter().flatten();
        let told = told.find(|it| it["protocol"] == "udp");
        let links = told.and_then(|it| it["links"].as_array());
        let is_own = |it: &Value| it["link"] == "dsl" || it["link"] == "lte";
        links.is_some_and(|links| links.iter().any(is_own))
    };
    until("links are known", is_told, || report() + &log());
}

fn another_policy_holds_at_once(net: &Internet, log: &impl Fn() -> String) {
    let set = net
        .place
        .run("client", &["policy", "set", "--packet-scheduler", "wrr"]);
    assert_eq!(set.code, 0, "{set:?}");
    let status = net.place.status("client").unwrap();
    assert_eq!(status["sessions"][0]["packet_scheduler"], "wrr", "{status}");
    let takes_turns = || {
        let why = net.place.run("client", &["why"]).out;
        let why: Vec<_> = why.split_whitespace().collect();
        why.join(" ").contains("because it was its turn")
    };
    until("packets take turns", takes_turns, log);
    let set = net
        .place
        .run("client", &["policy", "set", "--packet-scheduler", "fast"]);
    assert_eq!(set.code, 2, "{set:?}");
    assert!(set.err.contains("allowed are wrr wrrb ikr"), "{set:?}");
}

#[test]
fn flows_of_packets_are_shown_at_both_ends_with_the_links_that_carry_them() {
    let test =
        "packet_flows::flows_of_packets_are_shown_at_both_ends_with_the_links_that_carry_them";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        let gateway = net.serve();
        let client = net.up(&["--gateway", &net.place.invite()]);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        let echoing = net.begin(ECHOES);

        let own = || echoes(&net.place, "client", "udp").unwrap_or_default();
        let has_both = |flow: &Value| {
            let count = |name: &str| flow[name].as_u64().unwrap_or(0);
            count("packets_sent") > 5 && count("packets_received") > 5
        };
        until("the client shows the flow", || has_both(&own()), log);
        let flow = own();
        assert_eq!(flow["placed"], "real-time", "small and few: {flow}");
        assert!(
            flow["source"].as_str().unwrap().starts_with("10."),
            "{flow}"
        );
        assert!(flow["why"].is_string(), "{flow}");
        let both = carried(&flow, "dsl") + carried(&flow, "lte");
        let moved = |flow: &Value| {
            flow["bytes_sent"].as_u64().unwrap() + flow["bytes_received"].as_u64().unwrap()
        };
        // What comes over a path before it is usable at this end counts for no link.
        assert!(both > moved(&flow) / 2, "links are known: {flow}");
        until(
            "it has a rate",
            || own()["rate_bps"].as_u64().is_some_and(|rate| rate > 0),
            log,
        );

        // A gateway sees addresses and counts, from the client's side.
        let far = || echoes(&net.place, "gateway", "udp").unwrap_or_default();
        until("the gateway shows it", || has_both(&far()), log);
        assert_eq!(far()["source"], flow["source"]);

        let shown = |arguments: &[&str]| net.place.run("client", arguments).out;
        let streams = shown(&["streams"]);
        assert!(streams.contains("PACKETS of session"), "{streams}");
        let json: Value = serde_json::from_str(&shown(&["streams", "--json"])).unwrap();
        assert!(
            json["sessions"][0]["packet_flow_count"].as_u64() > Some(0),
            "{json}"
        );
        let why = shown(&["why"]);
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(why.contains("PACKETS udp from 10."), "{why}");
        assert!(
            why.contains("because the packet would arrive there first"),
            "{why}"
        );

        the_gateway_tells_its_reasons(&net, &log);
        another_policy_holds_at_once(&net, &log);

        // The other link takes the flow when its own is gone.
        let is_on_dsl = carried(&own(), "dsl") > carried(&own(), "lte");
        let (gone, left) = if is_on_dsl {
            ("dsl", "lte")
        } else {
            ("lte", "dsl")
        };
        ip(&format!("link set {gone} down"));
        let before = carried(&own(), left);
        let goes_on = || carried(&own(), left) > before + 1000;
        until("it goes on over the other link", goes_on, log);
        std::fs::write(net.done(), "").unwrap();
        let output = echoing.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    });
}

#[test]
fn tcp_goes_as_packets_where_a_rule_says_so_and_outlives_its_link() {
    let test = "packet_flows::tcp_goes_as_packets_where_a_rule_says_so_and_outlives_its_link";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        let gateway = net.serve();
        let rule = ["rule", "add", "--address", "11.0.0.0/24", "--mode"];
        let add = |arguments: &[&str], mode: &str| {
            let added = net
                .place
                .run("client", &[&rule[..], &[mode], arguments].concat());
            assert_eq!(added.code, 0, "{added:?}");
        };
        add(&["--protocol", "tcp"], "packet");
        let client = net.up(&["--gateway", &net.place.invite()]);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        let tested = net
            .place
            .run("client", &["rule", "test", "--to", "11.0.0.2:7"])
            .out;
        assert!(tested.contains("as packets"), "{tested}");

        let talking = net.begin(TALK);
        let own = || echoes(&net.place, "client", "tcp").unwrap_or_default();
        let bytes = |link: &str| carried(&own(), link);
        until(
            "it goes as packets",
            || bytes("dsl") + bytes("lte") > 5000,
            log,
        );
        let is_on_dsl = bytes("dsl") > bytes("lte");
        let (gone, left) = if is_on_dsl {
            ("dsl", "lte")
        } else {
            ("lte", "dsl")
        };
        let before = bytes(left);
        ip(&format!("link set {gone} down"));
        until(
            "the other link takes it",
            || bytes(left) > before + 5000,
            log,
        );
        let streams = net.place.run("client", &["streams"]).out;
        let listed = streams.split("PACKETS").next().unwrap();
        assert!(!listed.contains("11.0.0.2"), "no stream has it: {streams}");
        std::fs::write(net.done(), "").unwrap();
        let said = talking.wait_with_output().unwrap().stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let inner = own()["source"].as_str().unwrap_or("10.").to_owned();
        let inner = inner
            .rsplit_once(':')
            .map_or(inner.clone(), |(address, _)| address.to_owned());
        // The server sees the gateway, and the program has the address of the tunnel.
        assert_eq!(said, format!("11.0.0.1 {inner} True\n"), "{}", log());

        // Another rule holds for the next connection.
        add(&["--now"], "bonded");
        let said = net.begin(TALK).wait_with_output().unwrap().stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(said, "11.0.0.1 127.0.0.1 True\n", "{}", log());
    });
}

/// One socket, whose datagrams are sent back, until it is told to end.
const ECHOES: &str = "
s = udp()
while not os.path.exists('DONE'):
    echo(s, ('11.0.0.2', 7), os.urandom(100), tries=2, patience=0.2)
    time.sleep(0.01)
print('done')
";

/// One connection, whose bytes are sent back, until it is told to end.
const TALK: &str = "
t = socket.create_connection(('11.0.0.2', 7))
f = t.makefile('rb')
seen = f.readline().decode().strip()
whole = True
while True:
    payload = os.urandom(500)
    t.sendall(payload)
    whole = whole and f.read(500) == payload
    if os.path.exists('DONE'):
        break
    time.sleep(0.01)
print(seen, t.getsockname()[0], whole)
";
