//! Listening sockets of the predecessor that nobody has taken yet.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hawser_types::LinkIndex;
use rustix::net::sockopt;

use crate::sys;

/// Descriptors are a process's own, and so is this.
static INHERITED: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

pub(super) fn keep(socket: OwnedFd) {
    if sockopt::socket_acceptconn(&socket).unwrap_or(false) {
        lock().push(socket.into());
    }
}

/// The socket that listens at exactly this address, over all links, if the predecessor had one.
/// It does not block.
pub fn take_listener(address: SocketAddr) -> Option<TcpListener> {
    take(address, None)
}

/// Likewise as tokio has it. Must be called within a tokio runtime.
pub(crate) fn take_tcp(address: SocketAddr) -> Option<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(take(address, None)?).ok()
}

/// Likewise of the connections that come by one link.
pub(crate) fn take_on_link(
    address: SocketAddr,
    link: LinkIndex,
) -> Option<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(take(address, Some(link))?).ok()
}

/// Whether a socket of the connections that come by one link to this address waits to be taken.
pub(crate) fn has_on_link(address: SocketAddr, link: LinkIndex) -> bool {
    place(&lock(), address, Some(link)).is_some()
}

/// The address that stands for all of this machine at `port`, if the predecessor listened there on
/// single links.
pub(crate) fn on_links_at(port: u16) -> Option<SocketAddr> {
    let on_link = |it: &&TcpListener| sys::bound_interface(it.as_fd()).is_ok_and(|link| link != 0);
    let inherited = lock();
    let addresses = inherited
        .iter()
        .filter(on_link)
        .map(TcpListener::local_addr);
    let mut addresses = addresses.filter_map(Result::ok);
    addresses.find(|it| it.ip().is_unspecified() && it.port() == port)
}

/// Closes those that nobody has taken.
pub fn let_go() {
    lock().clear();
}

fn take(address: SocketAddr, link: Option<LinkIndex>) -> Option<TcpListener> {
    let mut inherited = lock();
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

fn lock() -> MutexGuard<'static, Vec<TcpListener>> {
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}
