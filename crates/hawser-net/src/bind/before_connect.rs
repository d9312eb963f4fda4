//! A look at TCP sockets before they connect over links.
//!
//! It is a fact of the whole process, as [the mark](super::own_mark) is: a part of it that makes
//! connections need not know who looks.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError, RwLock};

/// Whose data a TCP connection over a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Carries {
    /// Hawser's own: records of sessions, probes, questions for names, registrations.
    #[default]
    Own,
    /// A program's, which has the connection to itself.
    OfProgram,
    /// A program's, or Hawser's own at a port that a service has as well: where the far end agrees
    /// in the handshake, the connection becomes part of a session.
    AsksBond,
}

/// Ends the look when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct LookingAtSockets(());

/// From now on `look` is called with each TCP socket of this process before it connects over a
/// link, or as the system's routes have it. One look at a time: a second one replaces the first.
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

/// Has the socket looked at, where that is wanted.
pub(super) fn look_at(socket: &impl AsFd, carries: Carries) {
    let look = LOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(look) = look {
        look(socket.as_fd(), carries);
    }
}

fn set(look: Option<Look>) {
    *LOOK.write().unwrap_or_else(PoisonError::into_inner) = look;
}

type Look = Arc<dyn Fn(BorrowedFd<'_>, Carries) + Send + Sync>;

static LOOK: RwLock<Option<Look>> = RwLock::new(None);
