use std::time::Duration;

use hawser_types::Rate;

/// Facts that a choice is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlFacts {
    /// Smoothed round-trip time; zero before the first measurement.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// Round-trip time of the empty path.
    pub length: Duration,
    /// Segments that were lost while the queue was short, since the connection began
    /// ([`hawser_path::Loss::by_medium`]).
    pub lost_by_medium: u64,
    /// Segments that the peer has received since the connection began.
    pub delivered: u64,
    /// Nothing is in flight.
    pub idle: bool,
    /// Another link is quicker by so much that nothing which waits for an answer goes over this
    /// one.
    pub detour: bool,
    /// The path stands still time and again ([`hawser_path::Silence::goes_in_turns`]).
    pub in_turns: bool,
    /// Rate that the path carries.
    pub rate: Rate,
    /// The share of segments that the medium loses, from 0 to 1, is beyond what a window bears.
    pub lossy: bool,
}
