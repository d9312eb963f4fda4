//! The web server over real sockets on the loopback interface.

mod bounds;
mod client;
mod curl;
mod daemon;
mod feed;
mod guard;
mod pages;
