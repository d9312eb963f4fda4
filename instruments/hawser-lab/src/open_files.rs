//! The limit of open files.

use std::io;

/// Lets this process, and those that it starts, have as many files open as the system permits.
pub(crate) fn raise_open_files() -> io::Result<()> {
    // SAFETY: all-zero is a valid value; both calls only read and write it.
    let result = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        match libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) {
            0 => {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
            }
            failed => failed,
        }
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
