//! Changes to files that users also edit: keeps their text and comments.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use hawser_config::{Config, ConfigError, parse_rules};
use hawser_policy::Rule;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError, Value};

use crate::setup::Usage;

/// Kind of content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A configuration, which must exist.
    Config,
    /// Rules for connections only; the file is created if it is missing.
    Rules,
}

/// Changes the file as a whole or not at all; never writes a file that could not be read back.
pub(crate) fn change(
    path: &Path,
    content: Content,
    edit: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let place = EditedFile::of(path, content);
    let folder = File::open(&place.folder).with_context(|| place.folder.display().to_string())?;
    // Closing the folder unlocks it. Without the lock, concurrent changes would undo each other.
    take(&folder).with_context(|| place.folder.display().to_string())?;
    let name = path.display().to_string();
    let old = match open(&place.target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && content == Content::Rules => None,
        opened => Some(opened.with_context(|| format!("cannot open {name}"))?),
    };
    let text = match &old {
        Some(file) => read(file).with_context(|| format!("cannot read {name}"))?,
        None => RULES_HEAD.to_owned(),
    };
    let check = |text: &str| {
        if text.len() > MAX_FILE {
            bail!("{name} is longer than {MAX_FILE} bytes, or would be");
        }
        Ok(content.rules(&name, text).map(drop)?)
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
    let old = old.map(|file| file.metadata()).transpose();
    old.and_then(|old| place.replace(&folder, old, &text))
        .with_context(|| format!("cannot write {name}"))
}

impl Content {
    /// Checks the whole `text` and returns its rules; `name` is the file's name for errors.
    pub(crate) fn rules(self, name: &str, text: &str) -> Result<Vec<Rule>, ConfigError> {
        match self {
            Self::Config => Config::parse(name, text).map(|config| config.rules),
            Self::Rules => parse_rules(name, text),
        }
    }
}

/// The file to change, and its folder.
struct EditedFile {
    target: PathBuf,
    folder: PathBuf,
}

impl EditedFile {
    fn of(path: &Path, content: Content) -> Self {
        let target = match content {
            // A symbolic link is kept, and its target is replaced.
            Content::Config => fs::canonicalize(path).ok(),
            // The program's own file. Root must follow no symbolic link in a service's directory.
            Content::Rules => None,
        };
        let target = target.unwrap_or_else(|| path.to_path_buf());
        let folder = target.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        Self {
            folder: folder.unwrap_or(Path::new(".")).to_path_buf(),
            target,
        }
    }

    /// Replaces the `old` file by a file with this text.
    fn replace(&self, folder: &File, old: Option<Metadata>, text: &str) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".hawser-")
            .tempfile_in(&self.folder)?;
        file.write_all(text.as_bytes())?;
        if let Some(old) = &old {
            file.as_file().set_permissions(old.permissions())?;
        }
        // An existing file keeps its owner if that is allowed, and a new file gets the owner of its
        // folder: a service must be able to read a file that root creates there.
        if let Some(whose) = old.or_else(|| folder.metadata().ok()) {
            let _ = fchown(file.as_file(), Some(whose.uid()), Some(whose.gid()));
        }
        file.as_file().sync_all()?;
        file.persist(&self.target)?;
        folder.sync_all()
    }
}

/// Opens a regular file only: it follows no symbolic link and does not wait for a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path);
    let no_file = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    match opened {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            Err(no_file("it is a symbolic link, which is not followed here"))
        }
        Ok(file) if !file.metadata()?.is_file() => Err(no_file("it is not a regular file")),
        opened => opened,
    }
}

/// Returns the text of a configuration; `None` if the file is missing.
pub fn text(path: &Path) -> anyhow::Result<Option<String>> {
    let place = EditedFile::of(path, Content::Config);
    match open(&place.target).and_then(|file| read(&file)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Result of restoring an earlier text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// The file has the earlier text.
    Done,
    /// The file no longer exists.
    Gone,
    /// Another program has changed the file, so it was left alone.
    Changed,
}

/// Restores the `earlier` text of a configuration that still has the text `now`; removes the file
/// if there was none earlier. Leaves alone a file that has become a symbolic link.
pub fn put_back(path: &Path, now: &str, earlier: Option<&str>) -> anyhow::Result<PutBack> {
    let place = EditedFile::of(path, Content::Rules);
    let put = || -> io::Result<PutBack> {
        let folder = File::open(&place.folder)?;
        take(&folder).map_err(io::Error::other)?;
        let file = match open(&place.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PutBack::Gone),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(PutBack::Changed);
            }
            opened => opened?,
        };
        if read(&file)? != now {
            return Ok(PutBack::Changed);
        }
        match earlier {
            Some(text) => place.replace(&folder, Some(file.metadata()?), text)?,
            None => fs::remove_file(&place.target)?,
        }
        Ok(PutBack::Done)
    };
    put().with_context(|| format!("cannot change {}", path.display()))
}

/// Reads the text of a file, up to one byte more than the longest allowed text.
fn read(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_FILE as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Locks the folder. Any process that may read the folder can hold the lock for any time.
fn take(folder: &File) -> io::Result<()> {
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

/// Sets a key. Keeps the comment beside the value.
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

/// Returns a section for the end of the file. Text that is at the end now stays before it.
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

/// First line of a file of rules.
pub(crate) const RULES_HEAD: &str =
    "# Rules for connections, as `hawser rule add` has written them.\n";

/// Longest configuration that is read.
const MAX_FILE: usize = 1 << 20;
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    fn add_nothing(path: &Path) -> anyhow::Result<()> {
        change(path, Content::Rules, |_| Ok(()))
    }

    #[test]
    fn what_is_begun_is_whose_the_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        // Only root can change a file's owner; other users see that their files stay theirs.
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
    fn rules_are_kept_in_a_file_and_nothing_that_leads_elsewhere_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (
            folder.path().join("rules.toml"),
            folder.path().join("other"),
        );
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let error = format!("{:#}", add_nothing(&path).unwrap_err());
        assert!(error.contains("it is a symbolic link"), "{error}");
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&other).unwrap(), "");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let error = format!("{:#}", add_nothing(&path).unwrap_err());
        assert!(error.contains("it is not a regular file"), "{error}");
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
