//! A gateway that has lost links before an upgrade.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use hawser_skip::namespace::in_namespace;

use super::super::internet::Internet;
use super::super::program::until;
use super::{until_alone, upgrade};

/// With one link left, the new process has no own reason to bind sockets to links. The old one's
/// socket is still bound, and the kernel prefers it: connections right after the upgrade must be
/// answered nevertheless, and also after another upgrade.
#[test]
fn connections_are_answered_by_the_link_that_is_left() {
    let test = "upgrade::lost_link::connections_are_answered_by_the_link_that_is_left";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = net.serve();
        let log = || gateway.log();
        let on_link = || {
            let listed = net.gateway.command("ss").arg("-Hltn").output().unwrap();
            String::from_utf8_lossy(&listed.stdout).contains("%dsl:7443 ")
        };
        until("a socket is bound to the link", on_link, log);
        for link in ["lte", "wan"] {
            net.gateway.ip(&format!("link del {link}"));
        }
        for _ in 0..2 {
            upgrade(&net.place, "gateway", &gateway);
            for turn in 0..CONNECTIONS {
                let heard = answer().unwrap_or_else(|error| panic!("{turn}: {error}\n{}", log()));
                assert_eq!(heard, ALERT, "{turn}: {}", log());
            }
            until_alone(&net.place, "gateway", log);
            assert!(on_link(), "the new process has none: {}", log());
        }
        gateway.end();
    });
}

/// Sends bytes that are no hello of TLS. Returns the first byte of the answer.
fn answer() -> io::Result<u8> {
    let mut stream = TcpStream::connect("10.1.0.1:7443")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(EMPTY_HELLO)?;
    let mut heard = [0];
    stream.read_exact(&mut heard)?;
    Ok(heard[0])
}

/// A record with a ClientHello of no bytes (RFC 8446 §4, §5.1).
const EMPTY_HELLO: &[u8] = &[22, 3, 1, 0, 4, 1, 0, 0, 0];
/// Content type of a record with an alert.
const ALERT: u8 = 21;
/// More than the old process answers before it stops listening.
const CONNECTIONS: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(30);
