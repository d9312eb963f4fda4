//! Where traffic comes in: the proxy port, the gateway and file transfer.

pub mod bonded;
pub mod choice;
pub mod connect;
pub mod connection;
pub mod datagram;
pub mod destination;
pub mod direct;
pub mod either;
pub mod file;
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
pub mod near;
pub mod peer;
pub mod proxy;
pub mod redirect;
pub mod relay;
pub mod resolve;
mod tally;
pub mod transport;
