//! A hook that sees TCP sockets before they connect over links.
//!
//! The hook is global to the process, as [the mark](super::own_mark) is: code that makes
//! connections need not know who has installed the hook.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use parking_lot::RwLock;

/// Owner of the data that a TCP connection over a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carries {
    /// Hawser's own data: records of sessions, probes, name queries, registrations.
    #[default]
    Own,
    /// Data of one application, which has the connection to itself.
    OfProgram,
    /// An application's data, or Hawser's own at a port that a service shares: where the far end
    /// agrees in the handshake, the connection becomes part of a session.
    AsksBond,
}

/// Removes the hook when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct LookingAtSockets(());

/// Calls `look` with each TCP socket of this process before it connects, over a link or by the
/// system's routes. There is one hook at a time: a second one replaces the first.
pub fn look_at_sockets(
    look: impl Fn(BorrowedFd<'_>, Carries) + Send + Sync + 'static,
) -> LookingAtSockets {
    set(Some(Arc::new(look)));
    LookingAtSockets(())
}

impl Drop for LookingAtSockets {
    fn drop(&mut self) {
        set(None);
    }
}

/// Calls the hook for the socket, if one is installed.
pub(super) fn look_at(socket: &impl AsFd, carries: Carries) {
    let look = LOOK.read().clone();
    if let Some(look) = look {
        look(socket.as_fd(), carries);
    }
}

fn set(look: Option<Look>) {
    *LOOK.write() = look;
}

type Look = Arc<dyn Fn(BorrowedFd<'_>, Carries) + Send + Sync>;

static LOOK: RwLock<Option<Look>> = RwLock::new(None);
