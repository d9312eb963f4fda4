//! A dialer and a certificate for unit tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::net::TcpStream;

use crate::connect::{ConnectOptions, connect_any, connect_tcp};
use crate::destination::Destination;
use crate::resolve::{SystemResolver, addresses_of};
use crate::transport::{DialError, Dialer};

/// Resolves names with the system's resolver, and connects as its routes have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectDialer;

impl Dialer for DirectDialer {
    type Stream = TcpStream;

    async fn dial(&self, destination: &Destination) -> Result<TcpStream, DialError> {
        let addresses = addresses_of(&SystemResolver::new(), &destination.host).await?;
        let options = ConnectOptions::default();
        connect_any(&connect_tcp, &addresses, destination.port, &options).await
    }
}

/// Makes a self-signed certificate of `example.org` and its key, both as PEM files. Without openssl
/// it returns `None` and the test is skipped.
pub(crate) fn certificate(folder: &Path, test: &str) -> Option<[PathBuf; 2]> {
    let files = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-nodes", "-days", "30", "-subj", "/CN=example.org"])
        .args(["-addext", "subjectAltName=DNS:example.org"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&files[0])
        .arg("-keyout")
        .arg(&files[1])
        .output();
    let Ok(made) = made else {
        hawser_skip::skip(&format!("hawser-front::{test}"), "openssl is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    Some(files)
}
