//! Transactions: a request with its answers, repeated until they arrive (RFC 3261 §17, RFC 6026).

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

/// What messages come from and go to: a connection, or a socket with an address of the far end.
/// The owner gives the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The number. The owner does not use it again while a transaction may know it.
    pub number: u64,
    /// Whether it repeats what is lost by itself, as TCP does.
    pub is_reliable: bool,
}

/// The number of a transaction, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

/// Bytes to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where they go.
    pub flow: Flow,
    /// A message.
    pub bytes: Bytes,
}

/// What the transactions have to say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A new request, to be answered by [`Transactions::respond`]. All that is known of it could
    /// be read.
    Request {
        /// Its transaction.
        id: TransactionId,
        /// Where it came from.
        flow: Flow,
        /// The request.
        request: Request,
        /// For CANCEL: the transaction that it gives up (RFC 3261 §9.2), if that is there.
        cancels: Option<TransactionId>,
    },
    /// An ACK for a 2xx, which is no transaction (RFC 3261 §17.1.1.3).
    Ack {
        /// Where it came from.
        flow: Flow,
        /// The ACK.
        request: Request,
    },
    /// An answer to a request that was sent. An INVITE may get several 2xx.
    Response {
        /// The request's transaction.
        id: TransactionId,
        /// The answer.
        response: Response,
    },
    /// An answer that belongs to no transaction.
    Stray {
        /// Where it came from.
        flow: Flow,
        /// The answer.
        response: Response,
    },
    /// A request gets no final answer. That counts as a 408, or as a 503 (RFC 3261 §8.1.3.1).
    Failed {
        /// The request's transaction.
        id: TransactionId,
        /// The reason.
        reason: Failure,
    },
    /// The final answer to an INVITE was not acknowledged in time, or nobody answered it.
    Abandoned {
        /// The transaction.
        id: TransactionId,
    },
}

/// Why a request gets no final answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// None came in time.
    #[error("no answer in time")]
    Timeout,
    /// What it was sent over has failed.
    #[error("the connection failed")]
    Flow,
}

/// Why a request is not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// As many transactions as are allowed are in progress.
    #[error("{0} requests are in progress already")]
    Full(usize),
    /// The request lacks what it must have, or a header field can't be read.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Its Via has no branch that begins with `z9hG4bK`, or a request with that branch is in
    /// progress.
    #[error("the branch of Via must begin with z9hG4bK and be new")]
    Branch,
}

/// Why an answer is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RespondError {
    /// The transaction has ended.
    #[error("the transaction has ended")]
    Ended,
    /// The request has its final answer.
    #[error("the request has its final answer")]
    Answered,
}

/// Times and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// T1: an estimate of the round-trip time.
    pub t1: Duration,
    /// T2: the longest pause before a request other than INVITE, or an answer to INVITE, is
    /// repeated.
    pub t2: Duration,
    /// T4: how long a message may stay in the network.
    pub t4: Duration,
    /// How long an INVITE may stay without a final answer after a provisional one (timer C of
    /// RFC 3261 §16.6), at either end.
    pub ringing: Duration,
    /// Requests that are sent and in progress, at most.
    pub max_clients: usize,
    /// Requests that have come and are in progress, at most. Others get a 503.
    pub max_servers: usize,
    /// The tag of answers that the transactions give by themselves. A token.
    pub tag: String,
}

impl Config {
    /// The times of RFC 3261 §17, and 4,096 transactions each way.
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

    /// 64 × T1: how long one end tries.
    fn patience(&self) -> Duration {
        self.t1 * 64
    }

    /// `span` where messages may come again, nothing where they do not.
    fn linger(flow: Flow, span: Duration) -> Duration {
        if flow.is_reliable {
            Duration::ZERO
        } else {
            span
        }
    }
}
