//! A daemon is replaced by a new process of the program, which takes its ports; sessions and
//! connections that are open stay with the old one until they end.
//!
//! In this order: the old process starts the new one and gives it copies of its listening sockets
//! and of its lock. The new one prepares all that two processes can have at the same time, and asks
//! the old one to yield the rest, such as network devices. Then it serves, and the old one listens
//! no more. Until the old one yields it is not disturbed by whatever goes wrong; afterwards it
//! takes back what it has given up.

mod predecessor;
mod successor;

use std::net::SocketAddr;
use std::time::Duration;

use hawser_control::{ErrorReason, Response};
use hawser_net::takeover::Left;
use tokio::sync::{mpsc, oneshot};

pub(crate) use predecessor::Predecessor;
pub(crate) use successor::{Passed, Successor, Takeover};

/// Where the old process listens, at ports that the system may have chosen.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) listen: Option<SocketAddr>,
    /// For hosts that are known by name.
    pub(super) door: Option<SocketAddr>,
}

/// Somebody wants the daemon to be replaced.
pub(super) struct Wanted {
    /// Time after which what the old process still serves ends.
    limit: Duration,
    /// The new process's number, or why there is none.
    answer: oneshot::Sender<Result<u32, String>>,
}

/// Where wishes go.
pub(super) type Wishes = mpsc::Sender<Wanted>;

/// Places of [`Wishes`]: others are refused meanwhile.
pub(super) const MAX_WISHES: usize = 1;

impl Wanted {
    /// Answers that a process of before the last time still serves.
    pub(super) fn refuse(self, left: &Left) {
        let Left { open, seconds } = left;
        let _ = self.answer.send(Err(format!(
            "the process of before the last upgrade still serves what was open then ({open}), for \
             {seconds} s at most; try again when it has ended"
        )));
    }
}

/// Has the daemon replaced, by way of its `wishes`, or says what keeps it from that.
pub(super) async fn replace(wishes: Option<Wishes>, limit: Duration) -> Response {
    let refused = |reason, message: &str| Response::Error {
        reason,
        message: message.to_owned(),
    };
    let failed = |message: &str| refused(ErrorReason::Failed, message);
    let Some(wishes) = wishes else {
        let message = "only `hawser up` and `hawser serve`, once they are ready, can be upgraded";
        return refused(ErrorReason::Unsupported, message);
    };
    let (answer, answered) = oneshot::channel();
    if wishes.try_send(Wanted { limit, answer }).is_err() {
        return failed("an upgrade is under way");
    }
    match answered.await {
        Ok(Ok(process_id)) => Response::Upgraded { process_id },
        Ok(Err(problem)) => failed(&problem),
        Err(_) => failed("the daemon is about to end"),
    }
}
