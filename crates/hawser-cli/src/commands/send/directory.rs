//! Sends a directory and its contents, one transfer for each entry.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_file::{EntryKind, EntryPath, Tree, TreeEntry};

use super::courier::{AttemptError, Courier, Parcel};
use super::outcome::Outcome;
use crate::commands::board::{Board, TreeBar};

/// Sends a directory; returns what happened.
pub(super) async fn send(
    courier: &Courier,
    board: &Board,
    source: &Path,
    path: &EntryPath,
) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::new(source.display().to_string());
    let (from, top) = (source.to_owned(), path.clone());
    let tree = match tokio::task::spawn_blocking(move || Tree::read(&from, top)).await {
        Ok(Ok(tree)) => tree,
        Ok(Err(error)) => {
            board.complain(&error.to_string());
            outcome.fail(source.display().to_string(), error.to_string());
            return outcome;
        }
        // The runtime is shutting down.
        Err(error) => {
            outcome.fail(source.display().to_string(), error.to_string());
            return outcome;
        }
    };
    let bar = board.tree(path.to_string(), count_files(&tree), tree.size());
    let mut sending = Sending {
        courier,
        board,
        bar: &bar,
        top: path,
        outcome,
        complaints: 0,
        is_over: false,
        changed: BTreeSet::new(),
    };
    sending.tell_skipped(&tree);
    sending.send(&tree).await;
    sending.tell_rest();
    let Sending { mut outcome, .. } = sending;
    outcome.took(begun.elapsed());
    outcome
}

fn count_files(tree: &Tree) -> usize {
    let is_file = |it: &&TreeEntry| it.kind == EntryKind::File;
    tree.entries.iter().filter(is_file).count()
}

/// A directory that is being sent.
struct Sending<'a> {
    courier: &'a Courier,
    board: &'a Board,
    bar: &'a TreeBar,
    /// Path of the directory at the receiver.
    top: &'a EntryPath,
    outcome: Outcome,
    complaints: usize,
    /// True once an error has occurred that all other entries would fail with, too.
    is_over: bool,
    /// Directories that have got new entries at the receiver.
    changed: BTreeSet<String>,
}

impl Sending<'_> {
    fn tell_skipped(&mut self, tree: &Tree) {
        for skipped in &tree.skipped {
            let (path, reason) = (skipped.source.display().to_string(), &skipped.reason);
            if reason.is_failure() {
                self.outcome.fail(path.clone(), reason.to_string());
            } else {
                self.outcome.skip(path.clone(), reason.to_string());
            }
            self.complain(&format!("{path}: {reason}; it is left out"));
        }
    }

    /// Sends directories first, so that each has its permissions before files are put into it.
    async fn send(&mut self, tree: &Tree) {
        let is_directory = |it: &&TreeEntry| it.kind == EntryKind::Directory;
        let (directories, rest): (Vec<_>, Vec<_>) = tree.entries.iter().partition(is_directory);
        self.outcome.directories = self.send_each(&directories).await;
        self.send_each(&rest).await;
        // New entries have changed the directories' times, so these are sent again.
        let changed = std::mem::take(&mut self.changed);
        let is_changed = |it: &&TreeEntry| changed.contains(&it.path.to_string());
        let again: Vec<_> = directories.into_iter().filter(is_changed).collect();
        if !self.is_over {
            self.send_each(&again).await;
        }
    }

    /// Sends the entries, several at a time; returns how many the receiver has.
    async fn send_each(&mut self, entries: &[&TreeEntry]) -> usize {
        let mut there = 0;
        let mut due = entries.iter();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE && !self.is_over {
                let Some(&entry) = due.next() else { break };
                let (courier, place) = (self.courier, self.bar.place());
                running.push(async move {
                    let result = courier.send(Parcel::Entry(entry), &place).await;
                    (entry, result)
                });
            }
            let Some((entry, result)) = running.next().await else {
                break;
            };
            match result {
                Ok(sent) => {
                    there += 1;
                    if !sent.already_there
                        && let Some((parent, _)) = entry.path.to_string().rsplit_once('/')
                    {
                        self.changed.insert(parent.to_owned());
                    }
                    self.outcome.add(entry.kind, &sent);
                    if entry.kind == EntryKind::File {
                        self.bar.count();
                    }
                }
                Err(error) => self.fail(entry, &error),
            }
        }
        due.for_each(|_| self.outcome.give_up());
        there
    }

    fn fail(&mut self, entry: &TreeEntry, error: &AttemptError) {
        let path = entry.source.display().to_string();
        let concerns_all = error.concerns_all(entry, self.top);
        // An error that concerns all entries is reported only for the first one.
        if !(concerns_all && self.is_over) {
            self.complain(&error.line(&path));
        }
        self.outcome.fail(path, error.to_string());
        self.is_over |= concerns_all;
    }

    /// Prints a message, unless [`MAX_COMPLAINTS`] were printed.
    fn complain(&mut self, line: &str) {
        self.complaints += 1;
        if self.complaints <= MAX_COMPLAINTS {
            self.board.complain(line);
        }
    }

    fn tell_rest(&self) {
        let more = self.complaints.saturating_sub(MAX_COMPLAINTS);
        if more > 0 {
            let all = "`--json` lists all";
            self.board
                .complain(&format!("{more} more were not sent; {all}"));
        }
    }
}

/// Entries that wait in memory; the courier decides how many are sent at the same time.
const AT_ONCE: usize = 8;
/// Limit of messages about entries that were not sent, for each directory.
const MAX_COMPLAINTS: usize = 20;
