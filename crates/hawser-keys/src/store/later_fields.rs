//! Fields of files that a later version has written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields of an object that this version does not know. They are written back unchanged, so
/// that they survive a rollback and an upgrade.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct LaterFields(BTreeMap<String, Value>);

impl LaterFields {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
