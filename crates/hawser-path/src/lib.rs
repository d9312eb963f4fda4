//! Estimates of one path: round-trip time, delivery rate, queues, loss, silence; no policy.
//!
//! Each estimator is one file, pure, in constant memory. Those that a policy weighs tell how far
//! they can be trusted. `docs/design/scheduling.md` explains them.
//!
//! - A TCP channel: the driver's [`KernelSample`] goes to [`PathEstimator`] (`estimator.rs`), which
//!   feeds `delivery.rs`, `delay.rs`, `loss.rs`, `silence.rs`; stamps of both clocks go to
//!   `one_way.rs`. Policies see the results as a view of `hawser-sched`.
//! - A link as a whole: `capacity.rs`, `latency.rs`, `link_loss.rs` from connections and counters
//!   on it, `known.rs` for what earlier runs saw, `bottleneck.rs` for links that share one.
//! - Paths that are nearly dead: `silence.rs` (nothing comes although something is due),
//!   `crawling.rs` and `progress.rs` (next to nothing comes), `full_segments.rs` (large packets do
//!   not).
//!
//! To change a time-out of paths, begin at `silence.rs`; who acts on it is `channels/silence.rs` of
//! `hawser-session`. Tests stand in each file, except `bottleneck/tests.rs`.
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
