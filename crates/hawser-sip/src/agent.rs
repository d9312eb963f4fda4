//! A user agent: says where this host can be reached.

mod announcer;
mod condition;
mod registration;
#[cfg(test)]
mod tests;

pub use announcer::{Announcer, AnnouncerConfig, OwnAddress};
pub use condition::preferences;
pub use registration::{
    CareOf, Registration, RegistrationConfig, RegistrationEvent, RegistrationFault,
};
