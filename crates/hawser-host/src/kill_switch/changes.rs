//! Tells when an nftables table may have changed.

use std::io;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

/// The kernel's notifications of nftables changes, in this network namespace.
pub(super) struct Changes {
    socket: TokioSocket,
    buffer: Vec<u8>,
}

impl Changes {
    pub(super) fn follow() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        let inner = socket.socket_mut();
        inner.bind(&SocketAddr::new(0, 0))?;
        inner.add_membership(NFNLGRP_NFTABLES)?;
        Ok(Self {
            socket,
            buffer: Vec::with_capacity(BUFFER),
        })
    }

    /// Waits for the next notification. Its content is ignored: notifications may be lost, so only
    /// the table is reliable. A socket error means a lost notification, and counts as one.
    pub(super) async fn next(&mut self) {
        self.buffer.clear();
        let _ = self.socket.recv(&mut self.buffer).await;
    }
}

/// Source: the kernel's `linux/netfilter/nfnetlink.h`.
const NFNLGRP_NFTABLES: u32 = 7;
const BUFFER: usize = 4096;
