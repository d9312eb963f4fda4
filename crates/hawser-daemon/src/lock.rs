//! The lock that allows only one daemon in a state directory.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use anyhow::{Context as _, bail};
use hawser_control::Role;
use hawser_keys::store::StateDir;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Held for as long as the daemon runs; the kernel releases the lock however the daemon ends.
pub(super) struct Lock {
    file: File,
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Lock {
    /// Takes the lock. If another daemon holds it, the error tells which.
    pub(super) fn take(state: &StateDir, role: Role) -> anyhow::Result<Self> {
        let path = state.file("daemon.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // Root must follow no symbolic link in a service's directory: it overwrites the file.
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .with_context(|| format!("can't open {}", path.display()))?;
        if !file
            .metadata()
            .is_ok_and(|it| it.is_file() && it.nlink() == 1)
        {
            bail!("{} is no regular file with one hard link", path.display());
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = (&mut file).take(MAX_NAME).read_to_string(&mut holder);
                bail!(
                    "hawser is already running in {}{}; give this one another --state DIR, or end \
                     the other one",
                    state.path().display(),
                    described(&holder)
                );
            }
            Err(error) => {
                return Err(error).with_context(|| format!("can't lock {}", path.display()));
            }
        }
        Ok(Self::inherit(file, role))
    }

    /// Takes over a lock that a copy of this descriptor already holds. By flock(2), it is held
    /// until the last copy is closed.
    pub(super) fn inherit(mut file: File, role: Role) -> Self {
        // The note is for processes that find the lock taken; the lock works without it.
        let note = format!("{role}, process {}\n", std::process::id());
        let noted = file.set_len(0).and_then(|()| file.rewind());
        if let Err(error) = noted.and_then(|()| file.write_all(note.as_bytes())) {
            tracing::debug!(%error, "can't write the holder into the lock file");
        }
        Self { file }
    }
}

fn described(holder: &str) -> String {
    let holder = holder.trim().replace(char::is_control, "?");
    if holder.is_empty() {
        String::new()
    } else {
        format!(" ({holder})")
    }
}

const MAX_NAME: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_is_told_about_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let first = Lock::take(&state, Role::Gateway).unwrap();
        let error = Lock::take(&state, Role::Client).err().unwrap().to_string();
        let process = std::process::id();
        assert!(error.contains("already running"), "{error}");
        assert!(
            error.contains(&format!("(gateway, process {process})")),
            "{error}"
        );
        drop(first);
        Lock::take(&state, Role::Client).unwrap();
    }

    #[test]
    fn a_lock_that_leads_elsewhere_is_refused_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let (lock, other) = (state.file("daemon.lock"), state.file("precious"));
        std::fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        assert!(Lock::take(&state, Role::Client).is_err());
        std::fs::remove_file(&lock).unwrap();
        std::fs::hard_link(&other, &lock).unwrap();
        let error = Lock::take(&state, Role::Client).err().unwrap().to_string();
        assert!(error.contains("one hard link"), "{error}");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
    }
}
