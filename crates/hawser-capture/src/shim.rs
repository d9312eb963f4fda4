//! The library that is loaded into programs (`LD_PRELOAD`), for users without rights on the kernel.
//!
//! It needs no privileges and works for dynamically linked programs that connect through the C
//! library. Its code is in `shim/`. It asks a [`Registry`] over a socket before each connection,
//! and connects to a loopback port when told so. The acceptor of that connection asks the registry
//! for the original destination. Queries of the program to name servers go to further ports, one
//! for each server.

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
