//! Time limits of lookups.

use std::time::Duration;

/// Time that the system's resolver has to answer before links' servers are asked: most answers
/// arrive well before, and an application waits no longer than for a slow page.
pub const HEAD_START: Duration = Duration::from_millis(200);
/// Time that the system's resolver has if no link's server finds anything: one try at each of two
/// servers.
pub const SYSTEM_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a lookup over links is given up.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a resolver that was silent gets no head start.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// Time for the server that a program asks to answer for a name that no link's server knows.
pub const SPLIT_PATIENCE: Duration = Duration::from_millis(900);
