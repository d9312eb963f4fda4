//! What one path can do: round-trip time, delivery rate, silence; no policy.
#![forbid(unsafe_code)]

mod estimator;
mod silence;

pub use estimator::{KernelSample, PathEstimator};
pub use silence::Silence;
