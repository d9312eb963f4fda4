//! Folders of tests, whose logs are kept when the test fails.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use tempfile::TempDir;

use crate::namespace::INSIDE;

/// A folder for one test, removed with all that is in it when this is dropped.
///
/// If a panic drops it, the ends of the logs in it, which are files called `log` or `….log`, are
/// first copied below `test-logs` of the target folder, and a line of the test's output says where
/// they are. `cargo xtask test` shows that line again at its end, and removes the logs when it
/// begins.
#[derive(Debug)]
pub struct TestFolder(TempDir);

impl TestFolder {
    /// Creates an empty folder.
    ///
    /// # Panics
    /// Panics if there can be none, as tests do.
    #[allow(
        clippy::new_without_default,
        reason = "it takes something of the system's"
    )]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a test can make a folder"))
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let kept = logs_of(&test()).and_then(|to| {
            let name = self.path().file_name().unwrap_or_default();
            keep(self.path(), &to, &name.to_string_lossy())
        });
        match kept {
            Ok(Some(folder)) => eprintln!("{KEPT}{}", folder.display()),
            Ok(None) => {}
            Err(error) => eprintln!("the logs of this test are lost: {error}"),
        }
    }
}

/// Returns the name of the test that runs here.
fn test() -> String {
    let of_thread = || thread::current().name().map(str::to_owned);
    let test = env::var(INSIDE).ok().or_else(of_thread);
    test.unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the folder for logs of a test, beside those that cargo builds into.
fn logs_of(test: &str) -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    // A test is in `target/debug/deps/program-0123`.
    let target = own.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    let program = own.file_name().unwrap_or_default().to_string_lossy();
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let test = test.replace("::", ".");
    Ok(target.join("test-logs").join(format!("{program}.{test}")))
}

/// Copies the ends of the logs in `from` to a folder of this process in `to`, which has no logs of
/// earlier processes then. Returns that folder, or `None` if there are no logs.
fn keep(from: &Path, to: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let own = format!("{}-", process::id());
    for earlier in fs::read_dir(to).into_iter().flatten() {
        let earlier = earlier?;
        if !earlier.file_name().to_string_lossy().starts_with(&own) {
            fs::remove_dir_all(earlier.path())?;
        }
    }
    let logs = logs(from)?;
    if logs.is_empty() {
        return Ok(None);
    }
    let to = to.join(own + name);
    let most = (MOST_KEPT / logs.len() as u64).min(MOST_OF_A_LOG);
    for log in &logs {
        let copy = to.join(log.strip_prefix(from).unwrap_or(log));
        fs::create_dir_all(copy.parent().unwrap_or(&to))?;
        let mut log = File::open(log)?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        io::copy(&mut log.take(most), &mut File::create(copy)?)?;
    }
    Ok(Some(to))
}

/// Returns the logs in a folder and in those below, without following links.
fn logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        // A test may have taken away the right to read it.
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let (path, kind) = entry.and_then(|it| Ok((it.path(), it.file_type()?)))?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_log(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_log(path: &Path) -> bool {
    path.ends_with("log") || path.extension().is_some_and(|it| it == "log")
}

/// Begins the line that says where logs are; `xtask` knows it too.
const KEPT: &str = "logs are kept in ";
const MOST_OF_A_LOG: u64 = 4 << 20;
const MOST_KEPT: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_logs_are_kept_and_those_of_earlier_processes_go() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(keep(from.path(), to.path(), "a").unwrap(), None);
        fs::create_dir(from.path().join("in")).unwrap();
        fs::write(from.path().join("in/log"), "started\n").unwrap();
        fs::write(from.path().join("content"), "no log").unwrap();
        let long = "x".repeat(MOST_OF_A_LOG as usize) + "end";
        fs::write(from.path().join("client.log"), long).unwrap();
        fs::create_dir(to.path().join("0-earlier")).unwrap();
        let kept = keep(from.path(), to.path(), "a").unwrap().unwrap();
        assert_eq!(
            fs::read_to_string(kept.join("in/log")).unwrap(),
            "started\n"
        );
        let client = fs::read_to_string(kept.join("client.log")).unwrap();
        assert_eq!(client.len() as u64, MOST_OF_A_LOG);
        assert!(client.ends_with("xend") && !kept.join("content").exists());
        let other = keep(from.path(), to.path(), "b").unwrap().unwrap();
        assert!(kept.exists() && other.exists() && !to.path().join("0-earlier").exists());
    }

    #[test]
    fn a_test_that_passes_leaves_nothing_behind() {
        let folder = TestFolder::new();
        fs::write(folder.path().join("a.log"), "a").unwrap();
        let path = folder.path().to_path_buf();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_test_that_fails_leaves_its_logs() {
        let name = "this_test_fails_in_a_thread";
        let fails = || {
            let folder = TestFolder::new();
            fs::write(folder.path().join("a.log"), "a").unwrap();
            // A panic without the report of one.
            std::panic::resume_unwind(Box::new(()));
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(fails);
        assert!(thread.unwrap().join().is_err());
        let kept = logs_of(name).unwrap();
        let found = logs(&kept).unwrap();
        fs::remove_dir_all(&kept).unwrap();
        assert_eq!(found.len(), 1);
    }
}
