//! A user agent: registers this host with a directory, and opens sessions with other hosts.

mod announcer;
mod calls;
mod condition;
mod host_agent;
mod places;
mod registration;
#[cfg(test)]
mod tests;

pub use announcer::{Announcer, AnnouncerConfig, OwnAddress};
pub use calls::{CallEvent, CallProblem, Claim, Doubt, Keys, Verdict};
pub use condition::preferences;
pub use host_agent::HostAgent;
pub use places::{CandidateLink, candidates};
pub use registration::{
    CareOf, Registration, RegistrationConfig, RegistrationEvent, RegistrationFault,
};
