use super::*;

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
    assert_eq!(link.up.loss, 0.0005);
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
