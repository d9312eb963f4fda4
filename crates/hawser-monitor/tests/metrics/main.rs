//! Metrics: their format, by our own reading and by Prometheus' tool; their documentation; the
//! dashboard.

mod dashboard;
mod document;
mod format;
mod promtool;
mod sample;
