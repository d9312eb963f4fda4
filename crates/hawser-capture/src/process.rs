//! Processes that make connections.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// A process at the time of its connection. Unknown properties are missing: the process may have
/// ended, or belong to another user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process number; `None` when the kernel does not report it, as for another PID namespace.
    pub id: Option<u32>,
    /// Short name (`comm`), at most 15 bytes.
    pub name: Option<String>,
    /// The file that the process runs.
    pub executable: Option<PathBuf>,
    /// The user that the process runs as.
    pub user: Option<u32>,
    /// Control group in the hierarchy of version 2, such as `/user.slice/…`.
    pub cgroup: Option<String>,
}

impl Process {
    /// Reads the properties of process `id` of `user` from `/proc`.
    pub fn read(id: Option<u32>, user: u32) -> Self {
        let Some(id) = id else {
            return Self {
                user: Some(user),
                ..Self::default()
            };
        };
        let text = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).ok();
        Self {
            id: Some(id),
            name: text("comm").map(|name| name.trim_end().to_owned()),
            executable: fs::read_link(format!("/proc/{id}/exe")).ok(),
            user: Some(user),
            cgroup: text("cgroup")
                .as_deref()
                .and_then(unified)
                .map(str::to_owned),
        }
    }
}

/// Tells whether this is the initial PID namespace, so that process numbers equal those of the
/// kernel's programs.
pub fn is_outermost() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == OUTERMOST)
}

/// Returns the version 2 line among the hierarchies of a process.
fn unified(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Inode of the initial PID namespace, the same on all systems.
///
/// Source: the kernel's `linux/proc_ns.h`, `PROC_PID_INIT_INO`.
const OUTERMOST: u64 = 0xEFFF_FFFC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_finds_itself() {
        let own = Process::read(Some(std::process::id()), 7);
        assert_eq!(own.executable, std::env::current_exe().ok());
        assert!(
            own.name
                .is_some_and(|name| !name.is_empty() && !name.contains('\n'))
        );
        assert_eq!(own.user, Some(7));
    }

    #[test]
    fn a_process_that_has_gone_has_a_user_only() {
        // Beyond the largest number that Linux gives.
        let gone = Process::read(Some(u32::MAX), 7);
        assert_eq!((gone.name, gone.executable), (None, None));
        assert_eq!(Process::read(None, 7).user, Some(7));
    }

    #[test]
    fn the_second_version_of_control_groups_is_meant() {
        let hybrid = "12:net_cls:/a\n1:name=systemd:/b\n0::/user.slice/c\n";
        assert_eq!(unified(hybrid), Some("/user.slice/c"));
        assert_eq!(unified("12:net_cls:/a\n"), None);
    }
}
