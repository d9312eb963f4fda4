//! The front ends: the proxy port, the gateway and the directory.

mod address;
pub mod bonded;
pub mod connect;
pub mod connection;
pub mod datagram;
pub mod destination;
pub mod dialer;
pub mod directory;
pub mod either;
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
mod incoming;
pub mod name_stub;
pub mod near;
mod own_ports;
pub mod packets;
pub mod peer;
pub mod proxy;
pub mod redirect;
pub mod registration;
pub mod relay;
pub mod resolve;
pub mod root_certificates;
mod tally;
#[cfg(test)]
mod testing;
pub mod this_machine;
mod token_bucket;
mod told_names;
pub mod transport;
mod udp_addresses;
