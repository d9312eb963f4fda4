use serde::{Deserialize, Serialize};

/// Number of times that a reason applied.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyCount {
    /// The reason, for programs.
    pub why: String,
    /// The reason, for people: continues a sentence after "since".
    pub meaning: String,
    /// Number of chunks, or of packets.
    pub chunks: u64,
}
