//! Whole connections placed on links, towards servers that do not run Hawser.
//!
//! A [`SharedDirector`] decides which link a connection takes; its rules are those of
//! `hawser-director`. `OverLinks` opens connections as it advises: it races links and address
//! families, and retries on the next link before the application sees a failure.
//!
//! Source: DBAS §II (connection-oriented mode).

mod asker;
mod counted;
mod counters;
mod datagrams;
mod director;
mod early;
mod fetch;
mod flow;
mod kernel;
mod link_resolver;
mod names;
mod origin;
mod over_links;
mod prober;
mod race;
mod stranded;
#[cfg(test)]
pub(crate) mod testing;
mod trial;
mod via;
mod who;

pub use asker::{Asker, known, unknown};
pub use counted::{Counted, Observation, Observe};
pub use datagrams::DatagramPlace;
pub use director::SharedDirector;
pub use early::EarlyData;
pub use flow::Flow;
pub use kernel::{BondedServers, HeldDestinations, KernelPlaces};
pub use link_resolver::LinkResolver;
pub use names::RememberingResolver;
pub use origin::Origin;
pub(crate) use over_links::{OverLinks, resolved};
pub use prober::{ProbeBudget, Prober};
pub(crate) use race::Decided;
pub use via::{TcpVia, Via};
#[cfg(test)]
pub(crate) use who::tests::silent;
pub use who::{Sought, UnknownAsker, Who};
