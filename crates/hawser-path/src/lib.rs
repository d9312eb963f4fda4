//! Estimates of one path: round-trip time, delivery rate, queues, loss, silence; no policy.
#![forbid(unsafe_code)]

mod activity;
mod bottleneck;
mod capacity;
pub mod crawling;
mod delay;
mod delivery;
mod estimator;
mod full_segments;
mod kernel_sample;
mod known;
mod latency;
mod link_loss;
mod loss;
mod one_way;
mod progress;
mod silence;
mod window;

pub use activity::Activity;
pub use bottleneck::{Bottlenecks, Group, INTERVAL as BOTTLENECK_INTERVAL};
pub use capacity::Capacity;
pub use delay::Delay;
pub use delivery::{DeliveryRate, Limit};
pub use estimator::PathEstimator;
pub use full_segments::{FullSegments, Stall};
pub use kernel_sample::KernelSample;
pub use known::{KnownLink, KnownRate, LinkKey};
pub use latency::LinkLatency;
pub use link_loss::{LinkLoss, Segments};
pub use loss::Loss;
pub use one_way::{OneWayDelay, Trend};
pub use progress::Progress;
pub use silence::{Expectation, Silence};
