//! Results of sending the items of the command line.

use std::time::Duration;

use hawser_file::{EntryKind, Sent};
use hawser_types::ByteCount;
use serde::Serialize;

use crate::commands::board::amount;

/// Result of sending one item of the command line, also for `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcome {
    /// Name of the item on this machine.
    source: String,
    /// Files that are at the receiver now.
    pub(super) files: usize,
    /// Directories that are at the receiver now.
    pub(super) directories: usize,
    /// Symbolic links that are at the receiver now.
    links: usize,
    /// Files and links that were at the receiver before.
    already_there: usize,
    /// Total size of the files and links at the receiver.
    bytes: u64,
    /// Bytes that went over the network.
    transferred_bytes: u64,
    /// Duration of the transfer.
    seconds: f64,
    /// Entries that were left out because they have no content.
    skipped: Vec<Problem>,
    /// Entries that could not be sent.
    failed: Vec<Problem>,
    /// Entries that were not tried because they would have failed like an earlier one.
    not_tried: usize,
}

/// An entry that is not at the receiver, and the reason.
#[derive(Debug, Serialize)]
struct Problem {
    path: String,
    reason: String,
}

impl Outcome {
    /// Creates an empty outcome.
    pub(super) fn new(source: String) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Counts a file or link that was sent. Ignores directories, which are offered more than once.
    pub(super) fn add(&mut self, kind: EntryKind, sent: &Sent) {
        match kind {
            EntryKind::Directory => return,
            EntryKind::Link => self.links += 1,
            _ => self.files += 1,
        }
        self.already_there += usize::from(sent.already_there);
        self.bytes += sent.size.as_u64();
        self.transferred_bytes += sent.transferred.as_u64();
    }

    /// Adds an entry that was left out.
    pub(super) fn skip(&mut self, path: String, reason: String) {
        self.skipped.push(Problem { path, reason });
    }

    /// Adds a failure.
    pub(super) fn fail(&mut self, path: String, reason: String) {
        self.failed.push(Problem { path, reason });
    }

    /// Counts an entry that was not tried.
    pub(super) fn give_up(&mut self) {
        self.not_tried += 1;
    }

    /// Sets the duration of the transfer.
    pub(super) fn took(&mut self, time: Duration) {
        self.seconds = time.as_secs_f64();
    }

    /// Returns the number of entries that are not at the receiver.
    pub(super) fn missing(&self) -> usize {
        self.failed.len() + self.not_tried
    }

    /// Returns the total number of files and links.
    pub(super) fn total(&self) -> usize {
        self.files + self.links + self.missing()
    }

    /// Returns the bytes that went over the network.
    pub(super) fn transferred(&self) -> ByteCount {
        ByteCount::new(self.transferred_bytes)
    }

    /// Returns a message to the user about one file.
    pub(super) fn file_line(&self) -> String {
        let (source, size) = (&self.source, ByteCount::new(self.bytes));
        match self.already_there {
            0 => format!("{source}: {size}, sent {}", self.amount()),
            _ => format!("{source}: was there already, {size}"),
        }
    }

    /// Returns a message to the user about a directory.
    pub(super) fn directory_line(&self) -> String {
        let mut line = format!(
            "{}: {}, {}, sent {}",
            self.source,
            counted(self.files, "file"),
            ByteCount::new(self.bytes),
            self.amount()
        );
        let rest = [
            (self.already_there, "already there"),
            (self.skipped.len(), "skipped"),
            (self.missing(), "not sent"),
        ];
        for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
            line.push_str(&format!("; {count} {what}"));
        }
        line
    }

    fn amount(&self) -> String {
        amount(self.transferred(), Duration::from_secs_f64(self.seconds))
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(size: u64, transferred: u64) -> Sent {
        Sent {
            size: ByteCount::new(size),
            transferred: ByteCount::new(transferred),
            already_there: transferred == 0,
            hash: hawser_file::FileHash::from_bytes([0; 32]),
        }
    }

    #[test]
    fn the_line_of_a_directory_tells_what_is_not_there() {
        let mut outcome = Outcome::new("tree".to_owned());
        outcome.add(EntryKind::Directory, &sent(0, 1));
        outcome.add(EntryKind::File, &sent(1000, 1000));
        outcome.took(Duration::from_secs(1));
        let line = outcome.directory_line();
        assert_eq!(
            line,
            "tree: 1 file, 1.00 kB, sent 1.00 kB in 1.0 s, 8.0 kbit/s"
        );
        outcome.add(EntryKind::File, &sent(1000, 0));
        outcome.add(EntryKind::Link, &sent(0, 0));
        outcome.skip("a".to_owned(), "a socket".to_owned());
        outcome.fail("b".to_owned(), "gone".to_owned());
        outcome.give_up();
        let line = outcome.directory_line();
        assert!(line.starts_with("tree: 2 files, 2.00 kB,"), "{line}");
        let rest = "; 2 already there; 1 skipped; 2 not sent";
        assert!(line.ends_with(rest), "{line}");
        assert_eq!((outcome.total(), outcome.missing()), (5, 2));
    }
}
