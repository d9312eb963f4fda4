//! Associations over modelled links: two hosts with the production code of `hawser-sctp`.

mod bulk;
pub mod chaos;
pub mod compare;
pub mod delay;
mod events;
mod fabric;
pub mod paper;
mod transfer;

pub use bulk::{Bulk, Outcome};
pub use fabric::{Disorder, Fabric, Host, LinkModel, Wiring, client_local, server_local};
