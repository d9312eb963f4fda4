//! Spans of the log: which exist, what their fields are, and which tasks run in them.
//!
//! | span | level | fields | its lines |
//! |---|---|---|---|
//! | `client` | info | `id`: its name | the gateway's, about one client |
//! | `peer` | info | `host` | a client's, about its gateway or another host |
//! | `session` | info | `id`, `end` (`client` or `gateway`) | one session, in `client` or `peer` |
//! | `link` | debug | `interface` | channels over one link |
//! | `stream` | debug | `number`, `kind` | one stream |
//!
//! No field is called `name`: in JSON that is the name of the span. Lines are logged in the entered
//! span, never with `parent:`, which JSON ignores.
//!
//! Tasks that seldom run are instrumented. Tasks that run for each record are not, because a span
//! that is enabled costs some hundred nanoseconds at each poll: they enter it for each log line.
//! Lines of the state machines below a session or an association have its span if `debug` lines are
//! enabled (`for_steps`). Otherwise only lines that a timer or a sample causes have it, and lines
//! that a record causes have not.

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_session::Side;
use hawser_types::{SessionId, StreamId};
use hawser_wire::StreamKind;
use tracing::level_filters::LevelFilter;
use tracing::span::Entered;
use tracing::{Span, debug_span, field, info_span};

/// The span of a host that this host connects to. A client that is started in the span uses it;
/// other clients make a span from the host of their first address.
pub fn peer(host: impl std::fmt::Display) -> Span {
    info_span!(parent: None, PEER, %host)
}

/// The span of a stream, inside that of its session.
pub(crate) fn stream(session: &Span, id: StreamId, opening: &[u8]) -> Span {
    let span = debug_span!(parent: session, "stream", number = id.value(), kind = field::Empty);
    if let Some(kind) = StreamKind::of_opening(opening) {
        span.record("kind", field::debug(kind));
    }
    span
}

/// The span of the far end of a client's sessions.
pub(crate) fn far_end(address: Option<&HostPort>, key: &PublicKey) -> Span {
    let current = Span::current();
    if current.metadata().is_some_and(|it| it.name() == PEER) {
        return current;
    }
    match address.map(HostPort::host) {
        Some(host) => peer(host),
        None => peer(short(key)),
    }
}

/// The span of a gateway's client, which has no name yet.
pub(crate) fn client() -> Span {
    info_span!(parent: None, "client", id = field::Empty)
}

/// Sets a client's id in its span: the client's name or, without a name, the beginning of its key.
pub(crate) fn name_client(span: &Span, name: Option<&str>, key: &PublicKey) {
    match name {
        Some(name) => span.record("id", name),
        None => span.record("id", short(key)),
    };
}

/// The span of a session, inside the current span.
pub(crate) fn session(id: SessionId, side: Side) -> Span {
    let end = match side {
        Side::Client => "client",
        Side::Gateway => "gateway",
    };
    info_span!("session", %id, %end)
}

/// The span of a link, inside the current span.
pub(crate) fn link(name: &str) -> Span {
    debug_span!("link", interface = %name)
}

/// Enters the span for as long as a lock is held, if `debug` lines are enabled.
pub(crate) fn for_steps(span: &Span) -> Option<Entered<'_>> {
    (LevelFilter::current() >= LevelFilter::DEBUG).then(|| span.enter())
}

/// The beginning of a key, enough to tell keys apart in a log.
fn short(key: &PublicKey) -> String {
    format!("{key:.8}")
}

/// Name of the spans that [`peer`] makes.
const PEER: &str = "peer";

#[cfg(test)]
mod tests;
