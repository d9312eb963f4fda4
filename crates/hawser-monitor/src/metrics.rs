//! The state of a daemon as metrics for Prometheus.
//!
//! `docs/metrics.md` says what each of them means. Labels are names of links, at most [`MAX_LINKS`]
//! of them, and fixed words: nothing is labelled by connection, destination, session or program, so
//! that the number of series stays small however much goes on.

mod connections;
mod daemon;
mod links;
mod sessions;
mod text;

use hawser_control::StatusSnapshot;

pub use links::MAX_LINKS;
use text::Text;

/// The snapshot in the text format 0.0.4, as [`CONTENT_TYPE`] says.
///
/// Every family is there, whatever the snapshot has; one that does not apply has no samples. What
/// is counted is counted from the start of the daemon, and what is zero is shown as zero.
pub fn render(snapshot: &StatusSnapshot) -> String {
    let mut text = Text::default();
    daemon::write(&mut text, snapshot);
    links::write(&mut text, snapshot);
    connections::write(&mut text, snapshot.connections.as_ref());
    sessions::write(&mut text, snapshot);
    text.into_string()
}

/// Value of the header `Content-Type` for the text that [`render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
