//! Promises for link sets.

use serde::Serialize;

/// How far a promise was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kept {
    /// Which one.
    pub promise: Promise,
    /// What was reached of it, in thousandths: below 1000 it is broken.
    pub share: u64,
    /// What was measured, and what was promised, in words.
    pub figures: String,
}

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Bulk: at least 0.98 of the best single link, always.
    Best,
    /// Bulk: at least 0.98 of the sum of the single links, when each gives a twentieth of it and
    /// round-trip times are within 1:5; 0.95 within 1:20.
    Sum,
    /// Objects on a warm session take no longer than over a fresh connection on the best link.
    Objects,
    /// An interactive stream beside bulk is late by at most 30 ms, the best link's jitter, and two
    /// packets of it; judged where the best link is steady and loses little.
    Delay,
    /// A failure under load keeps the reader waiting for 200 ms, a round trip and four packets of
    /// the best link that is left; judged where links are steady and lose nothing.
    Gap,
    /// 1.5 s after the link's return the rate is full again; judged as the gap is.
    Return,
}

impl Promise {
    /// All, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Best,
        Self::Sum,
        Self::Objects,
        Self::Delay,
        Self::Gap,
        Self::Return,
    ];

    /// The word used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Sum => "sum",
            Self::Objects => "objects",
            Self::Delay => "delay",
            Self::Gap => "gap",
            Self::Return => "return",
        }
    }
}
