//! One file for many scenarios that differ in one value.

use serde::Deserialize;
use toml::{Table, Value};

use crate::InvalidScenario;

/// The value that changes, and its values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SweepEntry {
    /// Key such as `link.2.rate`: tables by name, entries of lists by their number from 1.
    pub(super) key: String,
    /// Its values, in order.
    values: Vec<Value>,
}

/// The content of the file with one of the values.
pub(super) struct Variant {
    /// The value, as reports show it.
    pub(super) value: String,
    pub(super) table: Table,
}

impl SweepEntry {
    /// Returns the content of the file, whose text is `text`, with each of the values.
    pub(super) fn variants(&self, text: &str) -> Result<Vec<Variant>, InvalidScenario> {
        if self.values.is_empty() || self.values.len() > MAX_VALUES {
            return Err(InvalidScenario::out_of_range(
                "values of sweep",
                self.values.len(),
                "1 to 100 values",
            ));
        }
        let mut table: Table = toml::from_str(text)?;
        let mut variants = Vec::new();
        for value in &self.values {
            let Some(place) = place(&mut table, &self.key) else {
                return Err(InvalidScenario::out_of_range(
                    "key of sweep",
                    &self.key,
                    "a key of this file, as link.2.rate",
                ));
            };
            *place = value.clone();
            let shown = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            variants.push(Variant {
                value: shown,
                table: table.clone(),
            });
        }
        Ok(variants)
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

const MAX_VALUES: usize = 100;
