//! Changes to files that people write, too: what they have written there stays as it is.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use hawser_config::{Config, parse_rules};
use rustix::fs::{FlockOperation, flock};
use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError, Value};

use crate::setup::Usage;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A configuration, which has to be there.
    Config,
    /// Rules for connections only; begun when it is not there.
    Rules,
}

/// Changes the file as a whole or not at all; never to something that could not be read back.
pub(crate) fn change(
    path: &Path,
    content: Content,
    edit: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // A link stays one, and what it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let lock = fs::File::open(folder).with_context(|| folder.display().to_string())?;
    // Given back with the file; two changes at once would undo one another.
    flock(&lock, FlockOperation::LockExclusive).with_context(|| folder.display().to_string())?;
    let is_new =
        |error: &io::Error| error.kind() == io::ErrorKind::NotFound && content == Content::Rules;
    let text = match fs::read_to_string(&target) {
        Err(error) if is_new(&error) => RULES_HEAD.to_owned(),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let name = path.display().to_string();
    let check = |text: &str| match content {
        Content::Config => Config::parse(&name, text).map(drop),
        Content::Rules => parse_rules(&name, text).map(drop),
    };
    check(&text)?;
    let mut document: DocumentMut = text.parse().map_err(|error: TomlError| {
        let problem = error.message();
        Usage(format!(
            "{name} can't be changed by this program: {problem}"
        ))
    })?;
    edit(&mut document)?;
    let text = document.to_string();
    check(&text)?;
    replace(&target, folder, &text).with_context(|| format!("cannot write {name}"))
}

/// Sets a key. What is remarked beside it stays.
pub(crate) fn put(table: &mut dyn TableLike, key: &str, new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(value) => {
            let decor = value.decor().clone();
            *value = new;
            *value.decor_mut() = decor;
        }
        None => drop(table.insert(key, Item::Value(new))),
    }
}

/// A section for the end of the file. What stands there stays ahead of it.
pub(crate) fn section_at_end(document: &mut DocumentMut) -> Table {
    let mut section = Table::new();
    section.set_position(isize::MAX);
    let end = document.trailing().as_str().unwrap_or_default().to_owned();
    if !end.is_empty() {
        section.decor_mut().set_prefix(format!("{end}\n"));
        document.set_trailing("");
    }
    section
}

fn replace(target: &Path, folder: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".hawser-")
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(old) = fs::metadata(target) {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        file.as_file().set_permissions(old.permissions())?;
        // Another's file stays theirs where that is allowed.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    fs::File::open(folder)?.sync_all()
}

/// Begins a file of rules.
pub(crate) const RULES_HEAD: &str =
    "# Rules for connections, as `hawser rule add` has written them.\n";
