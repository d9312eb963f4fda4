//! The only clock and the only sockets: links, binding, TLS, channels and the tokio driver.
