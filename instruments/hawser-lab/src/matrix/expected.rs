//! Expected outcomes of each cell: `expected.toml`.

use std::time::Duration;

use hawser_session::TransportChoice;
use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// One fault under one load by one transport, and what is expected of it.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) fault: Fault,
    pub(super) load: Load,
    pub(super) transport: TransportChoice,
    pub(super) expected: Expected,
}

/// What happens when the fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// The client sends.
    Put,
    /// The gateway sends.
    Get,
    /// An open connection is quiet.
    Rest,
}

/// The fate of the connection that is open when the fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Connection {
    Kept,
    Lost,
}

/// What is expected of a cell.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) connection: Connection,
    /// Part of the client's line of log for a connection that is lost.
    pub(super) says: Option<String>,
    /// Bound of the time to recover.
    pub(super) within: Duration,
    /// Number of links that are sound.
    pub(super) sound: u32,
}

impl Cell {
    /// `FAULT/LOAD/TRANSPORT`.
    pub(super) fn name(&self) -> String {
        let [fault, load, transport] = self.words();
        format!("{fault}/{load}/{transport}")
    }

    /// Returns whether this is its name, or the beginning of it up to a slash.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let words = self.words();
        let mut given = name.split('/');
        given.clone().count() <= words.len()
            && words
                .iter()
                .all(|word| given.next().is_none_or(|it| it == *word))
    }

    fn words(&self) -> [&'static str; 3] {
        let load = match self.load {
            Load::Put => "put",
            Load::Get => "get",
            Load::Rest => "rest",
        };
        [self.fault.name(), load, self.transport.name()]
    }
}

/// Returns all cells, those that last longest first: so that of several at once none is left over.
pub(super) fn cells() -> Result<Vec<Cell>, toml::de::Error> {
    let file: File = toml::from_str(include_str!("expected.toml"))?;
    let mut all = Vec::new();
    for entry in &file.cell {
        for load in &entry.load {
            for name in &entry.transport {
                all.push(Cell {
                    fault: entry.fault,
                    load: *load,
                    transport: (*name).into(),
                    expected: Expected {
                        connection: entry.connection,
                        says: entry.says.clone(),
                        within: Duration::from_secs(entry.within.0),
                        sound: entry.sound,
                    },
                });
            }
        }
    }
    all.sort_by_key(|cell| std::cmp::Reverse(cell.fault.lasts()));
    Ok(all)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cell: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    fault: Fault,
    load: Vec<Load>,
    #[serde(default = "all_transports")]
    transport: Vec<Name>,
    connection: Connection,
    says: Option<String>,
    within: Seconds,
    #[serde(default)]
    sound: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Name {
    Tcp,
    Sctp,
    Auto,
}

impl From<Name> for TransportChoice {
    fn from(name: Name) -> Self {
        match name {
            Name::Tcp => Self::Tcp,
            Name::Sctp => Self::Sctp,
            Name::Auto => Self::Auto,
        }
    }
}

fn all_transports() -> Vec<Name> {
    vec![Name::Tcp, Name::Sctp, Name::Auto]
}

/// Whole seconds, such as `"2s"`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Seconds(u64);

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let seconds = text.strip_suffix('s').and_then(|it| it.parse().ok());
        let wrong = || format!("`{text}` is no time in whole seconds, such as `2s`");
        seconds.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_is_there_once_for_each_transport_and_each_of_its_loads() {
        let cells = cells().unwrap();
        let names: BTreeSet<_> = cells.iter().map(Cell::name).collect();
        assert_eq!(names.len(), cells.len());
        for fault in Fault::ALL {
            let count = cells.iter().filter(|cell| cell.fault == fault).count();
            assert!(count >= 3 && count % 3 == 0, "{}", fault.name());
        }
    }

    #[test]
    fn what_is_lost_is_said() {
        for cell in cells().unwrap() {
            let is_lost = cell.expected.connection == Connection::Lost;
            assert_eq!(cell.expected.says.is_some(), is_lost, "{}", cell.name());
        }
    }
}
