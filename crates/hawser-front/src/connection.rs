//! Whole connections placed on links, towards servers that know nothing of Hawser.
//!
//! A [`SharedDirector`] decides which link a connection takes; its rules are those of
//! `hawser-director`. The [`LinkDialer`] opens connections by its advice: it races links and
//! address families, and tries on the next link what fails on one, before the application hears of
//! it.
//!
//! Source: DBAS §II (connection-oriented mode).

mod counted;
mod counters;
mod datagrams;
mod dialer;
mod director;
mod fetch;
mod flow;
mod kernel;
mod names;
mod origin;
mod prober;
mod race;
#[cfg(test)]
mod testing;
mod trial;
mod via;
mod who;

pub use counted::{Counted, Observation, Observe};
pub use datagrams::DatagramPlace;
pub(crate) use dialer::resolved;
pub use dialer::{LinkDial, LinkDialer};
pub use director::SharedDirector;
pub use flow::Flow;
pub use kernel::KernelPlaces;
pub use names::RememberingResolver;
pub use origin::Origin;
pub use prober::{ProbeBudget, Prober};
pub use via::{TcpVia, Via};
#[cfg(test)]
pub(crate) use who::tests::silent;
pub use who::{Asker, Sought, UnknownAsker, Who, known, nobody};
