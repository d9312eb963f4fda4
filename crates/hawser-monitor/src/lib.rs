//! Renders the state of a daemon on a terminal, in a browser and as metrics, from the types of
//! `hawser-control`. Also draws charts for reports.
#![forbid(unsafe_code)]

pub mod metrics;
pub mod report;
pub mod top;
pub mod web;
