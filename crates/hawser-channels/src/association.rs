//! How an association carries a channel of a session.
//!
//! A record of the session is a message of the association. The session is told what the paths of
//! the association carry, by link, and the association is told what the user's rules say of links.
//! `docs/design/association.md` has the reasons.

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
