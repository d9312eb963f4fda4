//! The mark of Hawser's own sockets, which lets a kill switch tell them from all others.
//!
//! Sockets are marked only while a kill switch is on: marking takes a privilege, and other
//! programs' routing rules may match on marks. Marking is global to the process, since one socket
//! without the mark would be a link that silently carries nothing.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;

/// Marks every socket for links that this process opens from now on with [`OWN_MARK`]. Opening them
/// fails where the privilege for that is missing (CAP_NET_ADMIN).
pub fn mark_sockets() {
    ARE_MARKED.store(true, Ordering::Relaxed);
}

/// Returns the mark that sockets get; `None` if they get none.
pub fn own_mark() -> Option<u32> {
    ARE_MARKED.load(Ordering::Relaxed).then_some(OWN_MARK)
}

/// Marks a socket, if marking is on.
///
/// # Errors
/// This process lacks the privilege.
pub fn mark(socket: &impl AsFd) -> io::Result<()> {
    match own_mark() {
        Some(mark) => SockRef::from(socket).set_mark(mark),
        None => Ok(()),
    }
}

static ARE_MARKED: AtomicBool = AtomicBool::new(false);
/// The letter H. Kubernetes, Tailscale, Calico, Cilium and mwan3 use none of its bits by default.
pub const OWN_MARK: u32 = 0x48;
