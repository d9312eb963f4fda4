//! The control socket of the group `hawser`: its members may query and control a daemon that runs
//! as root or as a service. Only the daemon's user may open the socket in the state directory.
//!
//! The file system controls the access: others can neither enter the socket's directory nor write
//! to the socket.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, ensure};
use hawser_keys::store::StateDir;
use tokio::net::{UnixListener, UnixSocket};

use super::server::{SOCKET, SocketFile, listen_with};

/// Returns the path of the socket.
pub fn path() -> PathBuf {
    Path::new(FOLDER).join(SOCKET)
}

/// Opens the socket; returns `None` for a daemon of a normal user, or if the group does not exist.
pub(super) fn listen(state: &StateDir) -> anyhow::Result<Option<(UnixListener, SocketFile)>> {
    let Some(place) = SocketFolder::find(state) else {
        return Ok(None);
    };
    place.prepare()?;
    place.open().map(Some)
}

/// The directory of the socket.
struct SocketFolder {
    folder: PathBuf,
    /// Number of the group that gets access; `None` for the process's own group.
    group: Option<u32>,
    /// The service manager has created the directory.
    is_made: bool,
}

impl SocketFolder {
    fn find(state: &StateDir) -> Option<Self> {
        // systemd.exec(5): colons separate several directories.
        if let Some(folders) = env::var_os("RUNTIME_DIRECTORY") {
            // Other services have their own folders, for other groups.
            let is_ours = env::split_paths(&folders).any(|it| it == Path::new(FOLDER));
            return is_ours.then(|| Self {
                folder: FOLDER.into(),
                group: None,
                is_made: true,
            });
        }
        if !rustix::process::geteuid().is_root() || !state.is_system() {
            return None;
        }
        let groups = fs::read_to_string("/etc/group").ok()?;
        Some(Self {
            folder: FOLDER.into(),
            group: Some(number_of(GROUP, &groups)?),
            is_made: false,
        })
    }

    fn prepare(&self) -> anyhow::Result<()> {
        if self.is_made {
            return Ok(());
        }
        let shown = || self.folder.display().to_string();
        match fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("can't make {}", shown()));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(&self.folder).with_context(shown)?;
        ensure!(
            found.is_dir() && found.uid() == 0,
            "{} is not a directory that root owns",
            shown()
        );
        let given = lchown(&self.folder, None, self.group)
            .and_then(|()| fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o750)));
        given.with_context(|| format!("can't give {} to the group {GROUP}", shown()))
    }

    fn open(&self) -> anyhow::Result<(UnixListener, SocketFile)> {
        listen_with(&self.folder.join(SOCKET), |at| {
            let socket = UnixSocket::new_stream()?;
            socket.bind(at)?;
            // No other user can rename files in this directory. A service can't change owners.
            if self.group.is_some() {
                lchown(at, None, self.group)?;
            }
            fs::set_permissions(at, fs::Permissions::from_mode(0o660))?;
            Ok(socket)
        })
    }
}

/// Returns the number of a group in the lines of `/etc/group`, see group(5).
fn number_of(group: &str, lines: &str) -> Option<u32> {
    let mut lines = lines.lines().map(|line| line.split(':'));
    let mut fields =
        lines.find_map(|mut fields| (fields.next() == Some(group)).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

/// Created by the package, and by `RuntimeDirectory=` of its units.
const FOLDER: &str = "/run/hawser";
/// The group whose members may use the socket.
pub const GROUP: &str = "hawser";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let lines = "root:x:0:\nhawsers:x:7:\n\nhawser:x:993:alice,bob\n";
        assert_eq!(number_of("hawser", lines), Some(993));
        assert_eq!(number_of("haws", lines), None);
        assert_eq!(number_of("hawser", "hawser:x:\nhawser"), None);
    }

    #[tokio::test]
    async fn its_socket_is_open_to_the_group_and_to_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let place = SocketFolder {
            folder: folder.path().join("run"),
            group: None,
            is_made: false,
        };
        if !rustix::process::geteuid().is_root() {
            assert!(place.prepare().is_err(), "it is a directory of root's");
            return;
        }
        place.prepare().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&place.folder), 0o750);
        // A later daemon finds the directory there.
        place.prepare().unwrap();
        let (_listener, file) = place.open().unwrap();
        assert_eq!(mode(&place.folder.join(SOCKET)), 0o660);
        drop(file);
        assert!(!place.folder.join(SOCKET).exists());
    }
}
