use std::io;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use hawser_wire::SynOptionError;

/// Reason why connections cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The process lacks a capability.
    #[error(
        "capturing connections is not permitted: it needs CAP_BPF, CAP_NET_ADMIN and \
         CAP_PERFMON (or root), and kernel lockdown off"
    )]
    NotPermitted(#[source] io::Error),
    /// Version 2 control groups are not mounted.
    #[error(
        "no control groups of version 2 are mounted, neither at /sys/fs/cgroup nor at \
         /sys/fs/cgroup/unified; mount them with: mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    NoControlGroups,
    /// The path is not a version 2 control group.
    #[error("{} is not a control group of version 2", .0.display())]
    NotAGroup(PathBuf),
    /// The kernel is too old for the programs.
    #[error("Linux {found} is too old to capture connections: it needs 5.15 or later")]
    KernelTooOld {
        /// The kernel's release.
        found: String,
    },
    /// The kernel was built without support.
    #[error(
        "this kernel can't run the programs that capture connections (CONFIG_BPF_SYSCALL, \
         CONFIG_CGROUP_BPF), or not without CAP_PERFMON: {0}"
    )]
    Refused(String),
    /// The kernel was built without support for options in TCP headers.
    #[error(
        "this kernel can't run the programs that find servers which can bond (CONFIG_BPF_SYSCALL, \
         CONFIG_CGROUP_BPF), or not without CAP_PERFMON: {0}"
    )]
    NoHeaderOptions(String),
    /// The kernel can't switch on callbacks of existing listeners.
    #[error(
        "this kernel can't switch on answers of listeners that are older than Hawser (it needs \
         Linux 6.12 and CONFIG_DEBUG_INFO_BTF): {0}"
    )]
    NoIterator(String),
    /// The programs share their control group with others, whose SYNs must not announce Hawser.
    #[error("the program has no control group of its own")]
    NoOwnGroup,
    /// A TCP option cannot hold the announcement.
    #[error(transparent)]
    Option(#[from] SynOptionError),
    /// A table in the kernel cannot be read or written.
    #[error("can't read or write a table of the kernel's program: {0}")]
    Table(#[from] MapError),
    /// There are more links than slots.
    #[error("there are {0} links; the kernel's program has room for 16")]
    TooManyLinks(usize),
    /// More destinations are to be held than the table has room for.
    #[error("{0} destinations are to be held; the kernel's program has room for 4096")]
    TooManyHeld(usize),
    /// Another reader has taken the events.
    #[error("another task already reads the events of captured connections")]
    EventsTaken,
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// Error of the system.
        error: io::Error,
    },
}

impl CaptureError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    /// Tells whether the error is permanent: the system does not permit or support capture.
    pub fn is_lasting(&self) -> bool {
        let Self::System { error, .. } = self else {
            return matches!(self, Self::NotPermitted(_));
        };
        matches!(
            error.raw_os_error(),
            Some(libc::EPERM | libc::EACCES | libc::EOPNOTSUPP)
        )
    }

    /// Tells whether a signal has interrupted the kernel's look at a program.
    pub(crate) fn is_interrupted(&self) -> bool {
        let Self::System { error, .. } = self else {
            return false;
        };
        error.raw_os_error() == Some(libc::EAGAIN)
    }

    /// Converts a loader's error by the system error behind it, classified by what a user can do
    /// about it.
    fn from_loader(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(one) = cause {
            if let Some(system) = one.downcast_ref::<io::Error>() {
                let code = system.raw_os_error().unwrap_or_default();
                if matches!(code, libc::EPERM | libc::EACCES) && !is_verifier(error) {
                    return Self::NotPermitted(io::Error::from_raw_os_error(code));
                }
                if code == libc::EAGAIN {
                    let error = io::Error::from_raw_os_error(code);
                    return Self::system("loading a program")(error);
                }
            }
            cause = one.source();
        }
        Self::Refused(chain(error))
    }
}

impl From<EbpfError> for CaptureError {
    fn from(error: EbpfError) -> Self {
        Self::from_loader(&error)
    }
}

impl From<ProgramError> for CaptureError {
    fn from(error: ProgramError) -> Self {
        Self::from_loader(&error)
    }
}

/// The verifier also refuses with EACCES, but gives a reason.
fn is_verifier(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        error.downcast_ref::<ProgramError>(),
        Some(ProgramError::LoadError { verifier_log, .. }) if !verifier_log.to_string().is_empty()
    )
}

/// Returns the whole message of an error, or its last lines if it is long.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text = format!("{one}: {text}");
        cause = one.source();
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(MAX_LINES)..].join("\n")
}

const MAX_LINES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_once_is_tried_again_unless_it_is_forbidden_or_not_built_in() {
        let is_lasting = |code| {
            let error = io::Error::from_raw_os_error(code);
            CaptureError::system("something")(error).is_lasting()
        };
        for code in [libc::EPERM, libc::EOPNOTSUPP] {
            assert!(is_lasting(code), "{code}");
        }
        for code in [libc::ENOBUFS, libc::EAGAIN, libc::EINTR, libc::ENOMEM] {
            assert!(!is_lasting(code), "{code}");
        }
    }
}
