//! Replaces a daemon by a new process of the program, which takes its ports. Open sessions and
//! connections stay with the old process until they end.
//!
//! The order is: the old process starts the new one and gives it copies of its listening sockets
//! and of its lock. The new process prepares all that two processes can have at the same time, and
//! asks the old one to yield the rest, such as network devices. Then the new process serves, and
//! the old one stops listening. A failure before the yield does not disturb the old process; after
//! a later failure, the old process takes back what it has yielded.

mod predecessor;
mod successor;

use std::net::SocketAddr;
use std::time::Duration;

use hawser_control::{ErrorReason, Response};
use hawser_net::takeover::Left;
use tokio::sync::{mpsc, oneshot};

pub(crate) use predecessor::Predecessor;
pub(crate) use successor::{Passed, Successor, Takeover};

/// Addresses at which the old process listens, with ports that the system may have chosen.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) listen: Option<SocketAddr>,
    /// Address for hosts that are known by name.
    pub(super) door: Option<SocketAddr>,
}

/// A request to replace the daemon.
pub(super) struct Wanted {
    /// Time after which the old process ends the streams and connections that are still open.
    limit: Duration,
    /// Receives the new process's id, or the reason of a failure.
    answer: oneshot::Sender<Result<u32, String>>,
}

/// Channel for requests to replace the daemon.
pub(super) type Wishes = mpsc::Sender<Wanted>;

/// Capacity of [`Wishes`]; further requests are refused meanwhile.
pub(super) const MAX_WISHES: usize = 1;

impl Wanted {
    /// Refuses the request because the old process of the last upgrade still serves.
    pub(super) fn refuse(self, left: &Left) {
        let Left { open, seconds } = left;
        let _ = self.answer.send(Err(format!(
            "the process from before the last upgrade still serves its open streams and \
             connections ({open}), for {seconds} s at most; try again when it has ended"
        )));
    }
}

/// Requests through `wishes` that the daemon is replaced, and returns the result.
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
