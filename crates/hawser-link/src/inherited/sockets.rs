//! The listening sockets of this process.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::net::{AddressFamily, sockopt};

use crate::sys;

/// Returns copies of the descriptors of all sockets on which this process listens by TCP, no matter
/// which part opened them.
///
/// # Errors
/// The system does not list the open descriptors.
pub fn listening() -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // Only sockets are copied: closing a copy of a file's descriptor would release this
        // process's locks of the file (fcntl_locking(2)), such as a database's.
        let leads_to = fs::read_link(entry.path()).unwrap_or_default();
        if !leads_to.as_os_str().as_bytes().starts_with(b"socket:") {
            continue;
        }
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        // The descriptor may have been closed since.
        let copy = number.and_then(|number| sys::duplicate(number).ok());
        found.extend(copy.filter(|it| is_listener(it.as_fd())));
    }
    Ok(found)
}

fn is_listener(socket: BorrowedFd<'_>) -> bool {
    let is_internet = |family| matches!(family, AddressFamily::INET | AddressFamily::INET6);
    sockopt::socket_acceptconn(socket).unwrap_or(false)
        && sockopt::socket_domain(socket).is_ok_and(is_internet)
}
