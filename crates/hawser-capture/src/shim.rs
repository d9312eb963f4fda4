//! The library that is loaded into programs (`LD_PRELOAD`), for those who may not change the kernel.
//!
//! It takes no right at all, and it takes only programs that are linked dynamically and call the C
//! library to connect. What it does stands in `shim/shim.c`. It asks a [`Registry`] by a socket
//! before each connection, and connects to a port on loopback when told so. Whoever accepts there asks
//! the registry where the connection was to lead.

mod cookie;
mod file;
mod message;
mod program;
mod registry;
mod server;

pub use file::{ShimError, ShimFile};
pub use message::{ANSWER_LENGTH, Malformed, Operation, REQUEST_LENGTH, Request};
pub use program::{Unaffected, unaffected};
pub use registry::{Arrival, Open, Registry};
pub use server::{Admit, ShimServer};
