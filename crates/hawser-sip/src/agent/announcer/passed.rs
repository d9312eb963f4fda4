//! Messages that an announcer passes to the rest of the user agent.

use crate::message::{Request, Response};
use crate::transaction::TransactionId;

/// A message that does not concern the registration.
#[derive(Debug)]
pub(in crate::agent) enum Passed {
    /// A request, to be answered by [`Announcer::respond`](super::Announcer::respond).
    Request {
        id: TransactionId,
        request: Request,
        /// For CANCEL: the transaction to cancel, if it exists.
        cancels: Option<TransactionId>,
    },
    /// An ACK for a 2xx.
    Ack(Request),
    /// Response to a request sent by [`Announcer::send`](super::Announcer::send).
    Response {
        id: TransactionId,
        response: Response,
    },
    /// A request sent by [`Announcer::send`](super::Announcer::send) gets no answer.
    Failed(TransactionId),
}
