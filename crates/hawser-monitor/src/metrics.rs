//! The state of a daemon as metrics for Prometheus.
//!
//! `docs/metrics.md` explains each of them. Labels are names of links, at most [`MAX_LINKS`] of
//! them, and fixed words. There are no labels for connections, destinations, sessions or programs,
//! so that the number of series stays small under any load.

mod connections;
mod daemon;
mod links;
mod sessions;
mod text;

use hawser_control::StatusSnapshot;

pub use links::MAX_LINKS;
use text::Text;

/// Returns the snapshot in the text format 0.0.4, as in [`CONTENT_TYPE`].
///
/// Every family is present; one that does not apply to the snapshot has no samples. Counters count
/// from the start of the daemon, and zero values are shown.
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
