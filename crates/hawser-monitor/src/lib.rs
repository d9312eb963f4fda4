//! What a daemon is doing, on a terminal, in a browser and as metrics: renderings of
//! `hawser-control`.
#![forbid(unsafe_code)]

pub mod metrics;
pub mod top;
pub mod web;
