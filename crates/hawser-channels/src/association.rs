//! Carrying a channel of a session over an association.
//!
//! A record of the session is a message of the association. The session learns the state of the
//! association's paths, by link, and the association learns the user's rules for links.
//! `docs/design/association.md` gives the reasons.

mod back_off;
mod config;
mod flows;
mod message;
mod path_links;
mod sample;
mod tunnel;
mod writer;

pub use back_off::AssociationBackOff;
pub use config::{association_config, below_seal};
pub use message::{record_of, send_waiting};
pub use path_links::PathLinks;
pub use sample::AssociationState;
pub use tunnel::{AssociationTunnel, TunnelStats};
pub use writer::{AssociationWriter, Instructions, Next, Step};
