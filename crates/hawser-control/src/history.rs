use std::time::Duration;

use hawser_types::{LinkIndex, Rate};
use serde::{Deserialize, Serialize};

/// What each link has carried over the last minutes, in samples at equal distances.
///
/// Every list has one entry for each sample, the oldest first, so all of them are equally long.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct HistoryReport {
    /// When the latest sample was taken, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's
    /// clock.
    pub at_unix_ms: u64,
    /// How far samples are apart.
    #[serde(rename = "every_ms", with = "crate::units::milliseconds")]
    pub every: Duration,
    /// The links that there were at any of the samples, in the order of their numbers.
    pub links: Vec<LinkHistory>,
}

/// What one link has carried.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkHistory {
    /// The interface's name.
    pub name: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// What left by it; 0 where the link was not there.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second::list")]
    pub up: Vec<Rate>,
    /// What arrived by it, likewise.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second::list")]
    pub down: Vec<Rate>,
    /// Its round-trip time, where one was known.
    #[serde(rename = "rtt_ms", with = "crate::units::milliseconds::option_list")]
    pub rtt: Vec<Option<Duration>>,
}
