//! Ctrl-C and termination: temporary folders are removed, and all child processes end.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Folders to remove when a signal ends the program.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary folder that goes with this value, and also when a signal ends the program.
#[derive(Debug)]
pub struct TemporaryFolder(tempfile::TempDir);

impl TemporaryFolder {
    /// Makes one.
    pub fn create() -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("hawser-lab-").tempdir()?;
        FOLDERS.lock().push(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        FOLDERS.lock().retain(|path| path != self.0.path());
    }
}

/// Ends the program in order on SIGINT, SIGTERM and SIGHUP.
///
/// Call it while there is one thread, so that all later ones leave the signals to the one made
/// here. Programs in a namespace start with the signals unblocked.
pub fn watch() -> std::io::Result<()> {
    let signals = block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    std::thread::Builder::new()
        .name("lab-signals".to_owned())
        .spawn(move || {
            let mut signal = 0;
            // SAFETY: waits for the signals blocked above, and writes into a local.
            if unsafe { libc::sigwait(&raw const signals, &raw mut signal) } != 0 {
                return;
            }
            eprintln!("hawser-lab: interrupted");
            kill_descendants();
            for folder in FOLDERS.lock().drain(..) {
                let _ = std::fs::remove_dir_all(folder);
            }
            std::process::exit(128 + signal);
        })?;
    Ok(())
}

/// Leaves Ctrl-C to the command in the foreground.
pub fn ignore_keyboard() {
    block(&[libc::SIGINT, libc::SIGQUIT]);
}

/// Makes orphaned grandchildren this process's children, so that they can be ended with it.
pub fn adopt_orphans() {
    // SAFETY: a plain system call.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64, 0, 0, 0);
    }
}

/// Kills everything that this process and its children started.
pub fn kill_descendants() {
    // Each pass kills the present children; theirs become ours and fall to the next one.
    for _ in 0..MAX_PASSES {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // SAFETY: a plain system call on a child that was not waited for yet.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// The present children, found by their parent's id: not every kernel lists children.
fn children() -> Vec<libc::pid_t> {
    let own = std::process::id().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let of_own = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let parent = fields.split_whitespace().nth(1)?;
        let id = entry.file_name().to_str()?.parse().ok()?;
        (parent == own).then_some(id)
    };
    processes.flatten().filter_map(of_own).collect()
}

fn block(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: the set is initialised before use and only this thread's mask changes.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

const MAX_PASSES: usize = 100;
