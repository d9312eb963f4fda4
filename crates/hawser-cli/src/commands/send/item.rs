//! The items that the command line asks to send.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use anyhow::bail;
use hawser_file::{EntryPath, NameError};

use crate::args::SendArgs;
use hawser_daemon::setup::Usage;

/// One item to send.
#[derive(Debug)]
pub(super) enum Item {
    /// A file, or a path whose transfer fails because it is no file.
    File {
        source: PathBuf,
        /// Path at the receiver; by default the name of the file.
        path: Option<EntryPath>,
    },
    /// A directory with its contents.
    Directory { source: PathBuf, path: EntryPath },
    /// Standard input.
    Input { path: EntryPath },
}

impl Item {
    /// Returns the item's name on this machine.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::File { source, .. } | Self::Directory { source, .. } => {
                source.display().to_string()
            }
            Self::Input { .. } => "standard input".to_owned(),
        }
    }

    /// Returns the path at the receiver, which no two items may share. `None` if the item has no
    /// name: its transfer reports that.
    pub(super) fn top(&self) -> Option<String> {
        match self {
            Self::File { source, path: None } => Some(source.file_name()?.display().to_string()),
            Self::File {
                path: Some(path), ..
            }
            | Self::Directory { path, .. }
            | Self::Input { path } => Some(path.to_string()),
        }
    }
}

/// Reads the items from the command line. Fails if none of them can be sent.
pub(super) fn items(args: &SendArgs) -> anyhow::Result<Vec<Item>> {
    if args.name.is_some() && args.files.len() > 1 {
        let got = args.files.len();
        return usage(&format!("--name is for one file or directory, got {got}"));
    }
    let looked_at = args.files.iter().map(|it| (it, it.metadata()));
    let looked_at: Vec<_> = looked_at.collect();
    let is_missing = |(path, found): &(&PathBuf, std::io::Result<Metadata>)| {
        let error = found.as_ref().err().filter(|_| !is_input(path))?;
        Some(format!("{}: {error}", path.display()))
    };
    let missing: Vec<String> = looked_at.iter().filter_map(is_missing).collect();
    // If only some are missing, the others are sent, and the missing ones reported.
    if missing.len() == looked_at.len() {
        bail!("{}", missing.join("; "));
    }
    looked_at
        .into_iter()
        .map(|(path, found)| item(path, found.is_ok_and(|it| it.is_dir()), args.name.clone()))
        .collect()
}

fn item(source: &Path, is_directory: bool, name: Option<EntryPath>) -> anyhow::Result<Item> {
    if is_input(source) {
        return match name {
            Some(path) => Ok(Item::Input { path }),
            None => usage("standard input has no name: give it one with --name NAME"),
        };
    }
    let source = source.to_owned();
    if !is_directory {
        let path = name;
        return Ok(Item::File { source, path });
    }
    match name.map_or_else(|| directory_name(&source), Ok) {
        Ok(path) => Ok(Item::Directory { source, path }),
        Err(NameError::Directory) => {
            let source = source.display();
            usage(&format!(
                "{source} has no name: give it one with --name NAME"
            ))
        }
        Err(error) => bail!("{}: {error}", source.display()),
    }
}

/// Returns the name of a directory, including `.` and `..`.
fn directory_name(path: &Path) -> Result<EntryPath, NameError> {
    match EntryPath::name_of(path) {
        Err(NameError::Directory) => {
            let whole = path.canonicalize().map_err(|_| NameError::Directory)?;
            EntryPath::name_of(&whole)
        }
        named => named,
    }
}

fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn usage<T>(problem: &str) -> anyhow::Result<T> {
    Err(Usage(problem.to_owned()).into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};
    use hawser_daemon::setup::is_usage;

    fn read(line: &[&str]) -> anyhow::Result<Vec<Item>> {
        let words = ["hawser", "send", "--to", "@i"].iter().chain(line);
        let Command::Send(args) = Cli::parse_from(words).command else {
            panic!("not a send");
        };
        items(&args)
    }

    fn refused(line: &[&str]) -> (bool, String) {
        let error = read(line).expect_err("refused");
        (is_usage(&error), error.to_string())
    }

    #[test]
    fn what_a_thing_is_called_at_the_receiver() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("tree");
        std::fs::create_dir(&folder).unwrap();
        let (folder, file) = (folder.to_str().unwrap(), folder.join("file"));
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        for (line, expected) in [
            (&[folder][..], "tree"),
            (&[&format!("{folder}/")], "tree"),
            (&[&format!("{folder}/.")], "tree"),
            (&[&format!("{folder}/../tree/..")], &name(place.path())),
            (&[folder, "--name", "a/b"], "a/b"),
            (&[file], "file"),
            (&[file, "--name", "other"], "other"),
            (&["-", "--name", "dump.sql"], "dump.sql"),
        ] {
            let items = read(line).unwrap();
            let top = items.first().and_then(Item::top);
            assert_eq!(top.as_deref(), Some(expected), "{line:?}");
        }
    }

    fn name(path: &Path) -> String {
        path.file_name().unwrap().display().to_string()
    }

    #[test]
    fn a_line_that_cannot_be_meant_is_refused_before_anything_is_sent() {
        let (is_usage, said) = refused(&["-"]);
        assert!(is_usage && said.contains("--name NAME"), "{said}");
        let (is_usage, said) = refused(&["/"]);
        assert!(is_usage && said.contains("/ has no name"), "{said}");
        let (is_usage, said) = refused(&["-", "/tmp", "--name", "x"]);
        assert!(is_usage && said.contains("got 2"), "{said}");
        let (is_usage, said) = refused(&["/nowhere/a", "/nowhere/b"]);
        assert!(!is_usage && said.contains("/nowhere/a: No such file"));
    }
}
