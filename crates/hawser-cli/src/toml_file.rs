//! Changes to files that people write, too: what they have written there stays as it is.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use hawser_config::{Config, parse_rules};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
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
    take(&lock).with_context(|| folder.display().to_string())?;
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
    if text.len() > MAX_FILE {
        bail!("{name} would be longer than {MAX_FILE} bytes, and could not be read again");
    }
    replace(&target, folder, &text).with_context(|| format!("cannot write {name}"))
}

/// Locks the folder, which anybody who may read it can hold for as long as they like.
fn take(folder: &fs::File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_POLL),
            Err(Errno::WOULDBLOCK) => {
                let text = "another program keeps it locked; nothing was changed";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            Err(Errno::INTR) => {}
            taken => return Ok(taken?),
        }
    }
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
    let old = fs::metadata(target);
    if let Ok(old) = &old {
        file.as_file().set_permissions(old.permissions())?;
    }
    // Another's file stays theirs where that is allowed, and a new one is for whom its folder is for: a
    // service has to read what root begins there.
    if let Ok(whose) = old.or_else(|_| fs::metadata(folder)) {
        let _ = fchown(file.as_file(), Some(whose.uid()), Some(whose.gid()));
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    fs::File::open(folder)?.sync_all()
}

/// Begins a file of rules.
pub(crate) const RULES_HEAD: &str =
    "# Rules for connections, as `hawser rule add` has written them.\n";

/// As much as is read of a configuration.
const MAX_FILE: usize = 1 << 20;
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn add_nothing(path: &Path) -> anyhow::Result<()> {
        change(path, Content::Rules, |_| Ok(()))
    }

    #[test]
    fn what_is_begun_is_whose_the_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        // Only root can give files away; others see that theirs stay theirs.
        let _ = std::os::unix::fs::chown(folder.path(), Some(4711), Some(4712));
        let path = folder.path().join("rules.toml");
        add_nothing(&path).unwrap();
        let (whose, its) = (fs::metadata(folder.path()), fs::metadata(&path));
        let owner = |it: io::Result<fs::Metadata>| it.map(|it| (it.uid(), it.gid())).unwrap();
        assert_eq!(owner(its), owner(whose));
    }

    #[test]
    fn a_folder_that_stays_locked_is_waited_for_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        let held = fs::File::open(folder.path()).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let error = add_nothing(&path).unwrap_err();
        assert!(
            format!("{error:#}").contains("keeps it locked"),
            "{error:#}"
        );
        assert!(!path.exists());
        drop(held);
        add_nothing(&path).unwrap();
    }

    #[test]
    fn a_file_does_not_grow_beyond_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        let outcome = change(&path, Content::Rules, |document| {
            document.set_trailing("#".repeat(MAX_FILE + 1));
            Ok(())
        });
        assert!(outcome.unwrap_err().to_string().contains("longer than"));
        assert!(!path.exists());
    }
}
