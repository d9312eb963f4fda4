//! The state of a daemon on a terminal, in a browser and as metrics: renderings of
//! `hawser-control`. Also charts, for reports too.
#![forbid(unsafe_code)]

pub mod metrics;
pub mod report;
pub mod top;
pub mod web;
