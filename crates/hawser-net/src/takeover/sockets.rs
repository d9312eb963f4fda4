//! The listening sockets of this process.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};

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
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        // One may have been closed since, or be the one that lists them.
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
