//! The examples in `docs/control-api.md` must match the implemented API.

use std::collections::BTreeSet;

use hawser_control::{ErrorReason, Event, Request, Response, decode};
use serde_json::Value;

/// Returns every JSON value in the document's code blocks.
fn examples() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("\n```json\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("\n```").next().unwrap().to_owned());
    let values = |block: String| {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&block)
            .into_iter()
            .collect();
        values.unwrap_or_else(|error| panic!("{error}: {block}"))
    };
    blocks.flat_map(values).collect()
}

/// Returns the values of the field `kind` in the examples.
fn shown(kind: &str) -> BTreeSet<String> {
    let names = examples()
        .into_iter()
        .filter_map(|value| Some(value[kind].as_str()?.to_owned()));
    names.collect()
}

/// Returns the names that a parser knows, from its error message on an unknown name.
fn known<T: serde::de::DeserializeOwned>(unknown: Value) -> BTreeSet<String> {
    let error = serde_json::from_value::<T>(unknown)
        .err()
        .unwrap()
        .to_string();
    error
        .split('`')
        .skip(3)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Fails unless all of `part` is in `whole`: fields with unknown names are not read.
fn assert_within(part: &Value, whole: &Value) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (name, value) in part.iter().filter(|(_, value)| !value.is_null()) {
                let found = whole
                    .get(name)
                    .unwrap_or_else(|| panic!("{name} is not read"));
                assert_within(value, found);
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len());
            part.iter()
                .zip(whole)
                .for_each(|(part, whole)| assert_within(part, whole));
        }
        _ => assert_eq!(part, whole),
    }
}

#[test]
fn every_example_is_read_as_it_is_meant() {
    for example in examples() {
        let bytes = example.to_string().into_bytes();
        let read = if example.get("request").is_some() {
            serde_json::to_value(decode::<Request>(&bytes).unwrap())
        } else if example.get("response").is_some() {
            serde_json::to_value(decode::<Response>(&bytes).unwrap())
        } else {
            serde_json::to_value(serde_json::from_value::<Event>(example.clone()).unwrap())
        };
        let mut whole = read.unwrap();
        if let Some(api) = example.get("api") {
            whole["api"] = api.clone();
        }
        assert_within(&example, &whole);
    }
}

#[test]
fn everything_that_is_spoken_has_an_example() {
    let none =
        serde_json::json!({"request": "", "response": "", "event": "", "id": 1, "at_unix_ms": 1});
    assert_eq!(shown("request"), known::<Request>(none.clone()));
    assert_eq!(shown("response"), known::<Response>(none.clone()));
    assert_eq!(shown("event"), known::<Event>(none));
}

#[test]
fn every_reason_of_an_error_is_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-api.md");
    let text = std::fs::read_to_string(path).unwrap();
    for reason in known::<ErrorReason>("".into()) {
        assert!(text.contains(&format!("\n| `{reason}` | ")), "{reason}");
    }
}

#[test]
fn requests_in_the_section_for_the_owner_are_refused_to_others_and_no_other_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("\n## For the socket only\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    for example in examples().iter().filter(|it| it.get("request").is_some()) {
        let name = example["request"].as_str().unwrap();
        let request: Request = decode(&example.to_string().into_bytes()).unwrap();
        let is_there = section.contains(&format!("\"request\": \"{name}\""));
        assert_eq!(request.is_for_owner(), is_there, "{name}");
    }
}
