//! Transactions: requests and responses, retransmitted if lost (RFC 3261 §17, RFC 6026).

mod client;
mod key;
mod server;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::message::{HeaderFault, Request, Response};
pub use table::Transactions;

/// Connection, or a socket with a remote address. The owner assigns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The number. The owner does not reuse it while a transaction may know it.
    pub number: u64,
    /// Whether it retransmits by itself, as TCP does.
    pub is_reliable: bool,
}

/// Number of a transaction, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

/// Bytes to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Flow to send over.
    pub flow: Flow,
    /// The message.
    pub bytes: Bytes,
}

/// Event for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A new request, to be answered by [`Transactions::respond`]. All its known header fields are
    /// valid.
    Request {
        /// Its transaction.
        id: TransactionId,
        /// Flow that it arrived over.
        flow: Flow,
        /// The request.
        request: Request,
        /// For CANCEL: the transaction to cancel (RFC 3261 §9.2), if it exists.
        cancels: Option<TransactionId>,
    },
    /// An ACK for a 2xx, which has no transaction (RFC 3261 §17.1.1.3).
    Ack {
        /// Flow that it arrived over.
        flow: Flow,
        /// The ACK.
        request: Request,
    },
    /// A response to a sent request. An INVITE may get several 2xx.
    Response {
        /// The request's transaction.
        id: TransactionId,
        /// The answer.
        response: Response,
    },
    /// A response without a transaction.
    Stray {
        /// Flow that it arrived over.
        flow: Flow,
        /// The answer.
        response: Response,
    },
    /// A request gets no final response. This counts as a 408, or as a 503 (RFC 3261 §8.1.3.1).
    Failed {
        /// The request's transaction.
        id: TransactionId,
        /// The reason.
        reason: Failure,
    },
    /// The final response to an INVITE was not acknowledged in time, or the owner sent none.
    Abandoned {
        /// The transaction.
        id: TransactionId,
    },
}

/// Reason why a request gets no final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// No response arrived in time.
    #[error("no answer in time")]
    Timeout,
    /// The flow of the request failed.
    #[error("the connection failed")]
    Flow,
}

/// Reason not to send a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The limit of transactions is reached.
    #[error("{0} requests are in progress already")]
    Full(usize),
    /// The request lacks a mandatory header field, or one can't be read.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Its Via has no branch that begins with `z9hG4bK`, or a request with that branch is in
    /// progress.
    #[error("the branch of Via must begin with z9hG4bK and be new")]
    Branch,
}

/// Reason not to send a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RespondError {
    /// The transaction has ended.
    #[error("the transaction has ended")]
    Ended,
    /// The request already has its final response.
    #[error("the request has its final answer")]
    Answered,
}

/// Timers and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// T1: an estimate of the round-trip time.
    pub t1: Duration,
    /// T2: the longest pause before a request other than INVITE, or an answer to INVITE, is
    /// repeated.
    pub t2: Duration,
    /// T4: maximum time of a message in the network.
    pub t4: Duration,
    /// How long an INVITE may stay without a final answer after a provisional one (timer C of
    /// RFC 3261 §16.6), at either end.
    pub ringing: Duration,
    /// Limit of sent requests in progress.
    pub max_clients: usize,
    /// Limit of received requests in progress. Further ones get a 503.
    pub max_servers: usize,
    /// Tag of responses that the transactions send by themselves. A token.
    pub tag: String,
}

impl Config {
    /// Returns the timers of RFC 3261 §17, and a limit of 4,096 transactions each way.
    #[must_use]
    pub fn new(tag: &str) -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            ringing: Duration::from_secs(180),
            max_clients: 4096,
            max_servers: 4096,
            tag: tag.to_owned(),
        }
    }

    /// Returns 64 × T1: the time after which an end gives up.
    fn patience(&self) -> Duration {
        self.t1 * 64
    }

    /// Returns `span` on a flow with retransmissions, zero on a reliable one.
    fn linger(flow: Flow, span: Duration) -> Duration {
        if flow.is_reliable {
            Duration::ZERO
        } else {
            span
        }
    }
}
