//! Counters of all kinds as one flat list.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Adds what `stats` has counted to `list`, each name begun with `prefix`; counts by reason become
/// `prefix-name-reason`.
pub(crate) fn flat(list: &mut BTreeMap<String, u64>, prefix: &str, stats: &impl Serialize) {
    match serde_json::to_value(stats) {
        Ok(value) => collect(list, prefix, &value),
        Err(error) => tracing::debug!(%error, prefix, "counters can't be listed"),
    }
}

fn collect(list: &mut BTreeMap<String, u64>, name: &str, value: &Value) {
    match value {
        Value::Number(number) => {
            list.insert(name.to_owned(), number.as_u64().unwrap_or(0));
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                collect(list, &format!("{name}-{field}"), value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_reason_get_names_of_their_own() {
        let stats = serde_json::json!({"accepted": 3, "refused": {"policy": 2}, "note": "x"});
        let mut list = BTreeMap::new();
        flat(&mut list, "door", &stats);
        let expected = [("door-accepted", 3), ("door-refused-policy", 2)];
        assert_eq!(list, expected.map(|(k, v)| (k.to_owned(), v)).into());
    }
}
