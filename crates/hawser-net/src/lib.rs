//! Sessions over real sockets: the tokio driver, clients, gateways, associations and streams.
//!
//! The only clock of the workspace is here ([`clock`]). Links and their sockets are in
//! `hawser-link`, keys in `hawser-keys`, the handshake in `hawser-seal`.

pub mod association;
pub mod client;
pub mod clock;
pub mod fuzzing;
pub mod gateway;
mod local_pair;
mod port_on_links;
pub mod session;
mod session_budgets;
pub mod start_up_memory;
pub mod stream;
pub mod takeover;
pub mod thread_memory;
pub mod ticks;

mod congestion;
mod driver;
mod lock_order;
mod sign_of_life;

pub use local_pair::local_pair;
