//! Metrics: their format, by a parser of our own and by Prometheus' tool; their documentation; the
//! dashboard.

mod dashboard;
mod document;
mod format;
mod promtool;
mod sample;
