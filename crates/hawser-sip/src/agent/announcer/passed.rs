//! What an announcer hears and leaves to others.

use crate::message::{Request, Response};
use crate::transaction::TransactionId;

/// What has come and is not about being registered.
#[derive(Debug)]
pub(in crate::agent) enum Passed {
    /// A request, to be answered by [`Announcer::respond`](super::Announcer::respond).
    Request {
        id: TransactionId,
        request: Request,
        /// For CANCEL: what it gives up, if that is there.
        cancels: Option<TransactionId>,
    },
    /// An ACK for a 2xx.
    Ack(Request),
    /// An answer to what was sent by [`Announcer::send`](super::Announcer::send).
    Response {
        id: TransactionId,
        response: Response,
    },
    /// What was sent by [`Announcer::send`](super::Announcer::send) gets no answer.
    Failed(TransactionId),
}
