//! The sockets of one port: one for each link and address that its flows use.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use hawser_link::bind::{ConnectError, DatagramSocket};
use hawser_types::LinkIndex;
use tokio::io::ReadBuf;

/// Identity of a socket within its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SocketKey {
    /// The link. `None`: the system's routes decide.
    pub(super) link: Option<LinkIndex>,
    pub(super) source: Option<IpAddr>,
    pub(super) is_ipv6: bool,
}

#[derive(Debug, Default)]
pub(super) struct Sockets {
    open: BTreeMap<SocketKey, DatagramSocket>,
    /// The socket that received last: the next poll begins with the other sockets.
    heard: Option<SocketKey>,
}

impl Sockets {
    pub(super) fn get_or_open(
        &mut self,
        key: SocketKey,
        open: impl FnOnce() -> Result<DatagramSocket, ConnectError>,
    ) -> io::Result<&DatagramSocket> {
        use std::collections::btree_map::Entry;
        Ok(match self.open.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(open()?),
        })
    }

    pub(super) fn remove(&mut self, key: &SocketKey) {
        self.open.remove(key);
    }

    pub(super) fn retain(&mut self, is_used: impl Fn(&SocketKey) -> bool) {
        self.open.retain(|key, _| is_used(key));
    }

    /// Receives the next datagram from any of the sockets; returns the socket, too.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<(SocketKey, io::Result<SocketAddr>)> {
        let heard = self.heard;
        let later = self.open.iter().filter(|(key, _)| Some(**key) > heard);
        let earlier = self.open.iter().filter(|(key, _)| Some(**key) <= heard);
        for (key, socket) in later.chain(earlier) {
            if let Poll::Ready(received) = socket.poll_receive(cx, buffer) {
                self.heard = Some(*key);
                return Poll::Ready((*key, received));
            }
        }
        Poll::Pending
    }
}
