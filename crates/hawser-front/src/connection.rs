//! Whole connections placed on links, towards servers that know nothing of Hawser.
//!
//! The [`Director`] decides which link a connection takes, charges the link with what the connection
//! will need, and learns from how it went. The [`LinkDialer`] opens connections by its advice: it
//! races links and address families, and what fails on one link is tried on the next before the
//! application hears of it.
//!
//! Source: DBAS §II (connection-oriented mode).

mod counted;
mod datagrams;
mod decision;
mod demands;
mod dialer;
mod director;
mod fetch;
mod flow;
mod gateway;
mod health;
mod kernel;
mod link_book;
mod names;
mod origin;
mod place;
mod plan;
mod prober;
mod race;
mod rates;
mod report;
mod sites;
mod story;
mod terms;
mod trial;
mod who;

pub use counted::{Counted, Observation, Observe};
pub use datagrams::DatagramPlace;
pub use decision::{Candidate, Decision};
pub use dialer::{LinkDialer, TcpVia, Via};
pub use director::Director;
pub use flow::Flow;
pub use gateway::{Chosen, GatewayReport, SessionView, ruled};
pub use health::Health;
pub use kernel::KernelPlaces;
pub use names::RememberingResolver;
pub use origin::Origin;
pub use prober::{ProbeBudget, Prober};
pub use report::{LinkReport, Report};
pub use story::{LeftTo, Promise, Story, Subject, Try, TryState};
pub use terms::LinkTerms;
#[cfg(test)]
pub(crate) use who::tests::silent;
pub use who::{Asker, Sought, UnknownAsker, Who, known, nobody};
