use std::time::Duration;

use hawser_types::Rate;

use super::*;
use crate::{Forgotten, Loss, Nat, Service, TcpOption, trace};

fn read(text: &str) -> Result<Scenario, InvalidScenario> {
    parse("test", text, &crate::no_files)
}

const TWO_LINKS: &str = r#"
payload = "60MB"
[[link]]
rate = "50Mbit/s"
delay = "10ms"
queue = "50ms"
[[link]]
rate = "5Mbit/s"
delay = "40ms"
loss = "0.05%"
queue = "300ms"
up = { rate = "1Mbit/s" }
"#;

#[test]
fn a_direction_overrides_its_link() {
    let scenario = read(TWO_LINKS).unwrap();
    let link = &scenario.links[1];
    assert_eq!(link.up.rate, Rate::from_bits_per_second(1_000_000));
    assert_eq!(link.down.rate, Rate::from_bits_per_second(5_000_000));
    assert_eq!((link.up.loss.mean, link.up.loss.burst), (0.0005, None));
}

#[test]
fn single_payloads_take_as_long_as_the_whole_does_over_all_links() {
    let scenario = read(TWO_LINKS).unwrap();
    let parts: Vec<_> = (0..2)
        .map(|k| scenario.single_payload(k, Direction::Get).as_u64())
        .collect();
    assert_eq!(parts, [54_545_454, 5_454_545]);
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let error = read(&TWO_LINKS.replace("loss", "los")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("line 10") && text.contains("los"), "{text}");
}

#[test]
fn a_number_without_unit_is_refused() {
    let error = read(&TWO_LINKS.replace("\"50ms\"", "\"50\"")).unwrap_err();
    assert!(error.to_string().contains("us, ms, s"), "{error}");
}

#[test]
fn an_event_of_limited_length_undoes_itself() {
    let text = format!(
        "{TWO_LINKS}[[event]]\nat = \"3s\"\nlink = 2\naction = \"black-hole\"\nfor = \"4s\"\n"
    );
    let events = read(&text).unwrap().events;
    let seen: Vec<_> = events
        .iter()
        .map(|e| (e.at.as_secs(), e.link, e.action))
        .collect();
    assert_eq!(seen, [(3, 1, Action::BlackHole), (7, 1, Action::Pass)]);
}

#[test]
fn an_event_on_a_link_that_is_not_there_is_refused() {
    let text = format!("{TWO_LINKS}[[event]]\nat = \"3s\"\nlink = 3\naction = \"pass\"\n");
    assert!(matches!(read(&text), Err(InvalidScenario::Value { .. })));
}

#[test]
fn steps_give_the_mean_rate() {
    let text = r#"
payload = "1MB"
[[link]]
delay = "10ms"
trace = [{ for = "1s", rate = "2Mbit/s" }, { for = "3s", rate = "6Mbit/s" }]
"#;
    let scenario = read(text).unwrap();
    assert_eq!(
        scenario.links[0].up.rate,
        Rate::from_bits_per_second(5_000_000)
    );
}

#[test]
fn bursty_service_takes_ranges_of_turns() {
    let text = r#"
payload = "1MB"
[[link]]
rate = "355kbit/s"
service = { on = "200ms..400ms", off = "250ms" }
"#;
    let scenario = read(text).unwrap();
    let ms = Duration::from_millis;
    assert_eq!(
        scenario.links[0].up.service,
        Service::Bursty {
            on: (ms(200), ms(400)),
            off: (ms(250), ms(250))
        }
    );
    assert!(read(&text.replace("200ms..", "500ms..")).is_err());
}

#[test]
fn a_direction_with_a_rate_of_its_own_leaves_the_links_trace() {
    let text = r#"
payload = "1MB"
[[link]]
delay = "10ms"
trace = [{ for = "1s", rate = "2Mbit/s" }]
up = { rate = "1Mbit/s" }
"#;
    let scenario = read(text).unwrap();
    assert_eq!(scenario.links[0].up.service, Service::Steady);
    assert!(matches!(scenario.links[0].down.service, Service::Trace(_)));
}

#[test]
fn losses_in_a_row_have_a_mean_and_a_length() {
    let bursty = TWO_LINKS.replace("\"0.05%\"", "{ mean = \"1%\", burst = 8 }");
    let loss = Loss {
        mean: 0.01,
        burst: Some(8.0),
    };
    let link = &read(&bursty).unwrap().links[1];
    assert_eq!((link.up.loss, link.down.loss), (loss, loss));
    for (wrong, said) in [
        (
            "{ mean = \"1%\", burst = 0.5 }",
            "loss.burst of link 2 up is 0.5: allowed is 1 to 1000 packets",
        ),
        (
            "{ mean = \"90%\", burst = 2 }",
            "loss.mean of link 2 up is 90%: allowed is at most burst / (burst + 1)",
        ),
        ("{ mean = \"1%\" }", "missing field `burst`"),
        (
            "{ mean = \"1%\", burst = 8, bad = 1 }",
            "unknown field `bad`",
        ),
        ("3", r#"expected "0.05%" or { mean = "1%", burst = 8 }"#),
        ("\"3\"", "% from 0% to 100%"),
    ] {
        let error = read(&TWO_LINKS.replace("\"0.05%\"", wrong)).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_link_has_a_translation_that_forgets_and_something_that_strips() {
    let text = format!(
        "{TWO_LINKS}nat = {{ forget = \"30s\", then = \"reset\" }}\nstrip = [\"sack\", \"fast-open\"]\n"
    );
    let links = read(&text).unwrap().links;
    assert_eq!((links[0].nat, links[0].strip.len()), (None, 0));
    let forget = Duration::from_secs(30);
    let then = Forgotten::Reset;
    assert_eq!(links[1].nat, Some(Nat { forget, then }));
    assert_eq!(links[1].strip, [TcpOption::Sack, TcpOption::FastOpen]);
    let error = read(&text.replace("30s", "30ms")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nat.forget of link 2 is 30ms: allowed is 100ms to 24h"),
        "{error}"
    );
}

#[test]
fn what_is_a_whole_links_is_refused_for_one_direction() {
    for key in ["strip = [\"sack\"]", "behind = \"10.0.0.2\"", "up = {}"] {
        let error = read(&TWO_LINKS.replace("rate = \"1Mbit/s\"", key)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("up of link 2 is a table with"),
            "{error}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".*") {
        let _ = read(&text);
        let _ = trace::parse(&text);
    }

    #[test]
    fn no_value_makes_the_reader_panic(key in "[a-z]{1,8}", value in "\\PC{0,12}") {
        let _ = read(&format!("payload = \"1MB\"\n[[link]]\n{key} = {value:?}\n"));
    }
}

const WORKLOAD: &str = r#"
summary = "small and large"
[[link]]
rate = "2Mbit/s"
[[link]]
rate = "1Mbit/s"
loss = "0%"
[server]
rate = "6Mbit/s"
[workload]
span = "60s"
[[workload.application]]
name = "small"
class = "interactive"
size = "22.38kB"
per-second = 13
[[workload.application]]
name = "large"
size = "285kB"
sizes = "exponential"
at-start = 1
[sweep]
key = "link.2.loss"
values = ["0%", "10%"]
"#;

fn points(text: &str) -> Result<Vec<Point>, InvalidScenario> {
    parse_points("test", text, &crate::no_files)
}

fn refused(from: &str, to: &str) -> String {
    assert!(WORKLOAD.contains(from), "{from}");
    points(&WORKLOAD.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn a_workload_needs_no_payload() {
    let scenario = read(WORKLOAD).unwrap();
    assert_eq!(
        scenario.server.unwrap().down.rate.bits_per_second(),
        6_000_000
    );
    let workload = scenario.workload.unwrap();
    let [small, large] = &workload.applications[..] else {
        panic!("{workload:?}");
    };
    assert_eq!(
        (small.class.name(), small.per_second),
        ("interactive", 13.0)
    );
    assert_eq!(small.size.as_u64(), 22_380);
    assert_eq!((large.class.name(), large.at_start), ("unknown", 1));
    assert_eq!(large.sizes, crate::Sizes::Exponential);
    let error = read(&TWO_LINKS.replace("payload", "# payload")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "payload is missing: allowed is 64KiB or more"
    );
}

#[test]
fn a_sweep_gives_a_scenario_for_each_value() {
    let points = points(WORKLOAD).unwrap();
    let seen: Vec<_> = points
        .iter()
        .map(|p| {
            (
                p.key.as_str(),
                p.value.as_str(),
                p.scenario.links[1].down.loss.mean,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [("link.2.loss", "0%", 0.0), ("link.2.loss", "10%", 0.1)]
    );
    assert!(
        points
            .iter()
            .all(|p| p.scenario.links[0].down.loss == Loss::NONE)
    );
    assert_eq!(self::points(TWO_LINKS).unwrap().len(), 1);
}

#[test]
fn what_a_sweep_cannot_do_is_refused() {
    for key in [
        "link.3.loss",
        "link.0.loss",
        "link.2.delay",
        "link.2.loss.mean",
        "links.2.loss",
        "",
    ] {
        let error = refused("\"link.2.loss\"", &format!("{key:?}"));
        assert!(error.contains("key of sweep is"), "{error}");
    }
    let error = refused("\"10%\"", "\"120%\"");
    assert!(error.contains("120%"), "{error}");
    assert!(
        refused("\"10%\"", "5").contains("expected"),
        "{}",
        refused("\"10%\"", "5")
    );
    assert!(refused("[\"0%\", \"10%\"]", "[]").contains("values of sweep is 0"));
}

#[test]
fn what_no_workload_can_be_is_refused() {
    assert!(refused("per-second = 13", "per-second = -1.0").contains("0 to 1000"));
    assert!(refused("per-second = 13", "per-second = nan").contains("0 to 1000"));
    assert!(refused("at-start = 1", "at-start = 1001").contains("at-start of application large"));
    assert!(refused("\"285kB\"", "\"0B\"").contains("size of application large"));
    assert!(refused("\"60s\"", "\"0s\"").contains("1s to 24h"));
    assert!(refused("name = \"large\"", "name = \"small\"").contains("a name given once"));
    assert!(refused("\"interactive\"", "\"urgent\"").contains("unknown class `urgent`"));
    assert!(refused("[server]", "[server]\nbehind = \"192.168.0.2\"").contains("server is"));
}
