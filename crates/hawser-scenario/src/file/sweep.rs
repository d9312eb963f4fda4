//! One file for many scenarios that differ in one value.

use serde::Deserialize;
use toml::{Table, Value};

use super::{File, out_of_range};
use crate::{InvalidScenario, Point, ReadText};

/// The value that changes, and its values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SweepEntry {
    /// Key such as `link.2.rate`: tables by name, entries of lists by their number from 1.
    key: String,
    /// Its values, in order.
    values: Vec<Value>,
}

impl SweepEntry {
    pub(super) fn points(
        self,
        name: &str,
        text: &str,
        read: ReadText<'_>,
    ) -> Result<Vec<Point>, InvalidScenario> {
        if self.values.is_empty() || self.values.len() > MAX_VALUES {
            return Err(out_of_range(
                "values of sweep",
                self.values.len(),
                "1 to 100 values",
            ));
        }
        let mut table: Table = toml::from_str(text)?;
        let mut points = Vec::new();
        for value in self.values {
            let Some(place) = place(&mut table, &self.key) else {
                return Err(out_of_range(
                    "key of sweep",
                    &self.key,
                    "a key of this file, as link.2.rate",
                ));
            };
            *place = value.clone();
            let file: File = table.clone().try_into()?;
            points.push(Point {
                key: self.key.clone(),
                value: shown(value),
                scenario: file.check(name, read)?,
            });
        }
        Ok(points)
    }
}

fn place<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    let (first, rest) = match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    };
    let mut value = table.get_mut(first)?;
    for step in rest.into_iter().flat_map(|rest| rest.split('.')) {
        value = match value {
            Value::Table(table) => table.get_mut(step)?,
            Value::Array(entries) => {
                let number: usize = step.parse().ok()?;
                entries.get_mut(number.checked_sub(1)?)?
            }
            _ => return None,
        };
    }
    Some(value)
}

fn shown(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

const MAX_VALUES: usize = 100;
