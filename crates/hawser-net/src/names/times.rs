//! How long is waited for whom.

use std::time::Duration;

/// Time that the system's resolver has to answer before links' servers are asked: most answers
/// come well before, and an application waits no longer than for a slow page.
pub const HEAD_START: Duration = Duration::from_millis(200);
/// Time that the system's resolver has where no link's server finds anything: one try at each of
/// two servers.
pub const SYSTEM_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a lookup over links is given up.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a resolver that was silent gets no head start.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// Time in which a server that a program asks says that it knows a name which no link's server
/// knows.
pub const SPLIT_PATIENCE: Duration = Duration::from_millis(900);
