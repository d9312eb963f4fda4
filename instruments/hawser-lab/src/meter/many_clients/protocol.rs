//! Requests to the process with the clients, and its answers.

use serde::{Deserialize, Serialize};

/// A line of the input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Let every client make requests until one is answered, for at most so many seconds.
    Answers { within: f64 },
    /// Let some clients transfer and others make requests.
    Load(Load),
}

/// The load to make.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Load {
    /// Number of clients that transfer, spread evenly over all.
    pub(crate) busy: usize,
    /// Seconds for which it is measured.
    pub(crate) seconds: f64,
    /// True if the last client is hostile meanwhile.
    pub(crate) hostile: bool,
}

/// Time until each client had an answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Answers {
    /// Seconds since the question, of those that had one.
    pub(crate) seconds: Vec<f64>,
    /// Number of clients that had none in time.
    pub(crate) missing: usize,
}

/// What went through under load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Loaded {
    /// Bytes that each busy client took while they were counted.
    pub(crate) bytes: Vec<u64>,
    /// Seconds for which they were counted.
    pub(crate) seconds: f64,
    /// Seconds that each small request took, from the opening of its stream to the answer.
    pub(crate) requests: Vec<f64>,
    /// Number of requests that failed.
    pub(crate) failed: usize,
    /// Streams that the hostile client opened.
    pub(crate) hostile_streams: u64,
}
