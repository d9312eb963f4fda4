//! Renders the state of a daemon on a terminal, in a browser and as metrics, from the types of
//! `hawser-control`. Also draws charts for reports.
//!
//! - [`metrics`]: Prometheus' text, one file in `metrics/` for each subject, over
//!   `metrics/text.rs`.
//! - [`top`]: keys (`top/keys.rs`) and answers (`top/seen.rs`) go to `top/state.rs`, which holds no
//!   terminal and no socket; `top/screen.rs` draws it; `top/asking.rs` queues requests.
//! - [`web`]: a request passes `web/head.rs` and `web/guard.rs` (own pages only, with the token) to
//!   `web/routes.rs`, which asks `web/daemon.rs`; `web/feed.rs` sends changes to the page, whose
//!   files are in `assets/`.
//! - [`report`]: pages in one file, which the lab writes.
//!
//! To add a metric: a family in `metrics/`, a row in `docs/metrics.md`, its value in
//! `tests/metrics/sample.rs`, in `hawser-control`, and where `hawser-daemon` fills it in (of the
//! process: `snapshot.rs`, `answers.rs`; of a link: `snapshot.rs`, `up/subject.rs`, its traffic
//! `link_books.rs`; of connections: `connections.rs`, `proxy/direct.rs`; of all sessions:
//! `session_status.rs`, `all_sessions.rs`, `picture.rs`); a named counter is an event unless
//! `metrics/daemon.rs` or, for counters of sessions (`counted` in `picture.rs`),
//! `metrics/sessions.rs` names it; `tests/metrics/document.rs` compares both,
//! `tests/metrics/dashboard.rs` checks `contrib/grafana/hawser.json`. To add a view of `hawser
//! top`, begin at `top/screen.rs` (test: `top/tests/pictures.rs`); a request of the dashboard, at
//! `web/routes.rs` (test: `tests/web/pages.rs`). `docs/design/monitor.md` explains the decisions.
#![forbid(unsafe_code)]

pub mod metrics;
pub mod report;
pub mod top;
pub mod web;
