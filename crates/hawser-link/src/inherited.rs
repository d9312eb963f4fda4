//! Listening sockets of the predecessor that no part of this process has taken yet.

mod sockets;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};

use hawser_types::LinkIndex;
use parking_lot::Mutex;
use rustix::net::sockopt;

use crate::sys;
pub use sockets::listening;

/// Static, since descriptors belong to the whole process.
static INHERITED: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

/// Keeps a listening socket of the predecessor for the part of this process that will use it.
pub fn keep(socket: OwnedFd) {
    if sockopt::socket_acceptconn(&socket).unwrap_or(false) {
        INHERITED.lock().push(socket.into());
    }
}

/// Takes the socket that listens at exactly this address, over all links, if the predecessor had
/// one. The socket is non-blocking.
pub fn take_listener(address: SocketAddr) -> Option<TcpListener> {
    take(address, None)
}

/// As [`take_listener`], as a tokio listener. Must be called within a tokio runtime.
pub fn take_tcp(address: SocketAddr) -> Option<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(take(address, None)?).ok()
}

/// As [`take_tcp`], for the socket that listens on one link only.
pub fn take_on_link(address: SocketAddr, link: LinkIndex) -> Option<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(take(address, Some(link))?).ok()
}

/// Returns whether a socket that listens at this address on one link waits to be taken.
pub fn has_on_link(address: SocketAddr, link: LinkIndex) -> bool {
    place(&INHERITED.lock(), address, Some(link)).is_some()
}

/// Returns the unspecified address at `port`, if the predecessor listened there on single links.
pub fn on_links_at(port: u16) -> Option<SocketAddr> {
    let on_link = |it: &&TcpListener| sys::bound_interface(it.as_fd()).is_ok_and(|link| link != 0);
    let inherited = INHERITED.lock();
    let addresses = inherited
        .iter()
        .filter(on_link)
        .map(TcpListener::local_addr);
    let mut addresses = addresses.filter_map(Result::ok);
    addresses.find(|it| it.ip().is_unspecified() && it.port() == port)
}

/// Closes all sockets that were not taken.
pub fn let_go() {
    INHERITED.lock().clear();
}

fn take(address: SocketAddr, link: Option<LinkIndex>) -> Option<TcpListener> {
    let mut inherited = INHERITED.lock();
    let place = place(&inherited, address, link)?;
    let listener = inherited.swap_remove(place);
    listener.set_nonblocking(true).ok()?;
    Some(listener)
}

fn place(inherited: &[TcpListener], address: SocketAddr, link: Option<LinkIndex>) -> Option<usize> {
    inherited.iter().position(|it| {
        it.local_addr().is_ok_and(|at| at == address)
            && sys::bound_interface(it.as_fd()).ok() == Some(link.map_or(0, LinkIndex::value))
    })
}
