//! The listening sockets of this process.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::net::{AddressFamily, sockopt};

use crate::sys;

/// Copies of the descriptors of all sockets on which this process listens by TCP. Whichever part
/// has opened them, none can be forgotten.
///
/// # Errors
/// When the system does not tell which descriptors are open.
pub fn listening() -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // Whoever closes a copy of a file's descriptor gives up this process's locks of the file
        // (fcntl_locking(2)), such as a database's.
        let leads_to = fs::read_link(entry.path()).unwrap_or_default();
        if !leads_to.as_os_str().as_bytes().starts_with(b"socket:") {
            continue;
        }
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        // It may have been closed since.
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
