//! Ports of this host that streams of other hosts may reach, and their encoding in a stream.

use std::collections::BTreeSet;

use crate::bonded::Purpose;
use crate::destination::{Destination, Host, HostName};
use crate::transport::DialError;

/// Ports of this host that other hosts may name in streams to it. They may name nothing else: no
/// other port, and no address in any form.
#[derive(Clone, Debug)]
pub(crate) struct OwnPorts(BTreeSet<u16>);

impl OwnPorts {
    /// Allows these ports.
    pub(crate) fn new(ports: impl IntoIterator<Item = u16>) -> Self {
        Self(ports.into_iter().collect())
    }

    /// Returns the port that a stream with this opening leads to.
    ///
    /// # Errors
    /// The opening leads to none of these ports.
    pub(crate) fn judge(&self, opening: &[u8]) -> Result<u16, DialError> {
        if Purpose::of(opening) != Some(Purpose::Connect) {
            return Err(DialError::RefusedByPolicy);
        }
        let destination = Destination::decode(opening);
        let destination = destination.map_err(|_| DialError::MalformedDestination)?;
        let is_own = destination.host == own_host() && self.0.contains(&destination.port);
        is_own
            .then_some(destination.port)
            .ok_or(DialError::RefusedByPolicy)
    }
}

/// Returns a port of the far end itself as a destination.
pub(crate) fn at_peer(port: u16) -> Destination {
    Destination::new(own_host(), port)
}

fn own_host() -> Host {
    let name = "localhost".parse::<HostName>();
    Host::Name(name.unwrap_or_else(|_| unreachable!("it is a name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reached_but_ports_that_were_named() {
        let ports = OwnPorts::new([22]);
        let judge = |text: &str| ports.judge(&Destination::parse(text, None).unwrap().to_bytes());
        assert_eq!(judge("localhost:22"), Ok(22));
        for other in [
            "localhost:23",
            "localhost:0",
            "localhost.:22",
            "localhost.localdomain:22",
            "127.0.0.1:22",
            "[::1]:22",
            "[::ffff:127.0.0.1]:22",
            "10.0.0.1:22",
            "example.org:22",
        ] {
            assert_eq!(judge(other), Err(DialError::RefusedByPolicy), "{other}");
        }
        assert_eq!(ports.judge(&at_peer(22).to_bytes()), Ok(22));
        for purpose in [Purpose::File, Purpose::Sink, Purpose::Source(1)] {
            let refused = Err(DialError::RefusedByPolicy);
            assert_eq!(ports.judge(&purpose.opening()), refused);
        }
        assert_eq!(ports.judge(&[3, 0]), Err(DialError::MalformedDestination));
    }
}
