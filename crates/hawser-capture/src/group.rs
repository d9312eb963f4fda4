use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{CaptureError, sys};

/// A control group for one program and its descendants, below this process's own group.
///
/// A process that moves itself to another group keeps the captured sockets that it has made, and
/// its new ones are not captured. When this is dropped, remaining processes move to the parent
/// group, and the group is removed.
#[derive(Debug)]
pub struct RunGroup {
    path: PathBuf,
    above: PathBuf,
}

impl RunGroup {
    /// Creates the group. Needs write permission below this process's own group: root, or a
    /// delegated group.
    pub fn create() -> Result<Self, CaptureError> {
        let above = own_group()?;
        let path = create_below(&above).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                CaptureError::NotPermitted(error)
            }
            _ => CaptureError::system("a control group")(error),
        })?;
        Ok(Self { path, above })
    }

    /// Returns the group's folder, for [`crate::Capture::start`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `command` start in the group: it enters before its program begins, so that no socket
    /// is missed. Fails where the group is gone.
    pub fn enter(&self, command: &mut Command) -> io::Result<()> {
        let processes = self.path.join(PROCESSES);
        sys::start_in(command, OpenOptions::new().write(true).open(processes)?);
        Ok(())
    }

    /// Returns the numbers of the processes in the group.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        let text = fs::read_to_string(self.path.join(PROCESSES))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Returns the kernel's number of the group, as in [`crate::Connection::cgroup`].
    pub fn number(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(fs::metadata(&self.path)?.ino())
    }

    /// Moves the group's processes to the parent group, and removes the group.
    ///
    /// A process that forks while it is moved leaves a child behind, and an exiting process is
    /// unlisted but keeps the group busy: both are waited for, within bounds.
    fn remove(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for process in self.processes()? {
                let _ = fs::write(self.above.join(PROCESSES), process.to_string());
            }
            match fs::remove_dir(&self.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                result => return result,
            }
            let mut events = File::open(self.path.join("cgroup.events"))?;
            let mut text = String::new();
            events.read_to_string(&mut text)?;
            // The group has become empty meanwhile, or it has child groups.
            let is_empty = text.lines().any(|line| line == "populated 0");
            if is_empty || Instant::now() >= deadline {
                return fs::remove_dir(&self.path);
            }
            sys::wait_for_change(&events, ROUND);
        }
    }
}

impl Drop for RunGroup {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// Returns the mount point of version 2 control groups: `/sys/fs/cgroup`, or beside version 1
/// `/sys/fs/cgroup/unified`.
pub fn mount_point() -> Result<PathBuf, CaptureError> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(CaptureError::system("/proc/self/mountinfo"))?;
    find_mount(&text).ok_or(CaptureError::NoControlGroups)
}

/// Returns the folder of this process's control group.
pub fn own_group() -> Result<PathBuf, CaptureError> {
    let text = fs::read_to_string("/proc/self/cgroup")
        .map_err(CaptureError::system("/proc/self/cgroup"))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let path = path.ok_or(CaptureError::NoControlGroups)?;
    Ok(mount_point()?.join(path))
}

/// Makes a folder with a name that no other folder has.
///
/// A process of another namespace may have the same number, and a killed process may have left its
/// group behind: such names are skipped.
fn create_below(above: &Path) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("hawser-{}-{number}", std::process::id()));
        tries += 1;
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => {}
            made => return made.map(|()| path),
        }
    }
}

/// Finds the mount point, by proc_pid_mountinfo(5): the fifth field is the mount point, the first
/// field after the lone dash is the type.
fn find_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let is_version_2 = tail.split(' ').next() == Some("cgroup2");
        let path = head.split(' ').nth(4).filter(|_| is_version_2)?;
        Some(PathBuf::from(path.replace("\\040", " ")))
    })
}

static COUNT: AtomicU32 = AtomicU32::new(0);
/// Names that are tried for a group.
const MAX_TRIES: u32 = 1000;
const PROCESSES: &str = "cgroup.procs";
/// Maximum wait for processes to leave the group.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval at which forked processes are looked for, with or without a notification of the kernel.
const ROUND: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken_are_passed_over_within_bounds() {
        let above = tempfile::tempdir().unwrap();
        let first = create_below(above.path()).unwrap();
        // The names that follow may exist: a process of another namespace may have the same number.
        let name = first.file_name().unwrap().to_str().unwrap();
        let (stem, number) = name.rsplit_once('-').unwrap();
        let number: u32 = number.parse().unwrap();
        for next in number + 1..number + 5 {
            fs::create_dir(above.path().join(format!("{stem}-{next}"))).unwrap();
        }
        let second = create_below(above.path()).unwrap();
        assert!(second.is_dir() && second != first);
        let gone = above.path().join("gone");
        assert_eq!(
            create_below(&gone).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn control_groups_of_version_2_are_found_beside_those_of_version_1() {
        let hybrid = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 30 0:28 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n";
        let found = find_mount(hybrid).unwrap();
        assert_eq!(found, Path::new("/sys/fs/cgroup/unified"));
        let alone = "30 24 0:26 / /a\\040b rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find_mount(alone).unwrap(), Path::new("/a b"));
        assert_eq!(
            find_mount("1 2 0:1 / /sys rw - sysfs sysfs rw\n\nx - "),
            None
        );
    }
}
