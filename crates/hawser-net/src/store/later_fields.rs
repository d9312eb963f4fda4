//! Fields of files that a later version has written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields of an object that this version does not know, which are written back as they were:
/// after a rollback and an upgrade nothing of them is lost.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct LaterFields(BTreeMap<String, Value>);

impl LaterFields {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
