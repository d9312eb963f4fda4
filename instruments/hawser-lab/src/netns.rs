//! Network namespaces without names: they exist as long as this process and its children, so none
//! can be left behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// A network namespace, held open.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
}

impl NetNs {
    /// Makes a new, empty namespace.
    pub fn create() -> io::Result<Self> {
        on_own_thread(|| {
            // SAFETY: moves only this short-lived thread.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = File::open("/proc/thread-self/ns/net")?.into();
            Ok(Self { fd })
        })
    }

    /// Runs `work` on a thread inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let fd = self.fd.as_raw_fd();
        on_own_thread(move || {
            enter(fd)?;
            work()
        })
    }

    /// A command that will run inside the namespace, and be killed when the calling thread ends.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let fd = self.fd.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made, nothing allocates.
        unsafe {
            command.pre_exec(move || {
                enter(fd)?;
                unblock_signals()?;
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        command
    }

    /// A path by which other processes can name the namespace (`nsenter --net=PATH`) for as long
    /// as this process lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd()).into()
    }

    /// Sets kernel parameters of the namespace, given as paths below `/proc/sys`.
    pub fn set_parameters(&self, parameters: &[(&str, &str)]) -> io::Result<()> {
        self.run(|| {
            for (name, value) in parameters {
                let path = format!("/proc/sys/{name}");
                std::fs::write(&path, value)
                    .map_err(|e| io::Error::new(e.kind(), format!("cannot set {path}: {e}")))?;
            }
            Ok(())
        })
    }
}

fn enter(fd: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as the owner's value lives.
    match unsafe { libc::setns(fd, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The lab's own threads leave signals to one of them; its programs must hear that they are to end.
fn unblock_signals() -> io::Result<()> {
    // SAFETY: the set is initialised before use; both calls are allowed between fork and exec.
    let result = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the namespace's thread failed")))
    })
}
