//! The links of this machine.

use std::sync::Arc;

use hawser_link::links::Link;
use tokio::sync::watch;

/// The links of this machine, as they come and go.
pub type Links = watch::Receiver<Arc<Vec<Link>>>;
