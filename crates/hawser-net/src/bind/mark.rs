//! The mark of Hawser's own sockets, by which a kill switch tells them from all others.
//!
//! Sockets have none unless a kill switch is on: marks take a right, and other programs' rules for
//! routes may look at them. It is a fact of the whole process, since one socket without the mark
//! would be a link that silently carries nothing.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;

/// From now on every socket for links that this process opens has [`OWN_MARK`]. Opening them fails
/// where the right for that is missing (CAP_NET_ADMIN).
pub fn mark_sockets() {
    ARE_MARKED.store(true, Ordering::Relaxed);
}

/// The mark that sockets get; `None`: they get none.
pub fn own_mark() -> Option<u32> {
    ARE_MARKED.load(Ordering::Relaxed).then_some(OWN_MARK)
}

/// Gives a socket the mark, if sockets get it.
///
/// # Errors
/// That this process may not.
pub fn mark(socket: &impl AsFd) -> io::Result<()> {
    match own_mark() {
        Some(mark) => SockRef::from(socket).set_mark(mark),
        None => Ok(()),
    }
}

static ARE_MARKED: AtomicBool = AtomicBool::new(false);
/// An H. Kubernetes, Tailscale, Calico, Cilium and mwan3 use none of its bits by default.
pub const OWN_MARK: u32 = 0x48;
