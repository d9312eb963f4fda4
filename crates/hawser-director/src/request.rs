use std::net::IpAddr;

use hawser_policy::{Facts, Protocol};
use hawser_types::LinkIndex;

/// A connection that an application wants, with its origin and destination. Unknown facts are
/// `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConnectionRequest {
    /// The protocol.
    pub protocol: Protocol,
    /// Destination address.
    pub remote: Option<IpAddr>,
    /// Destination port.
    pub port: u16,
    /// Name that the application asked for.
    pub domain: Option<String>,
    /// The process's name, as the kernel keeps it (15 bytes at most).
    pub program: Option<String>,
    /// The path of the process's executable.
    pub executable: Option<String>,
    /// User that the process runs as.
    pub user: Option<u32>,
    /// The path of its control group.
    pub cgroup: Option<String>,
    /// Differentiated services code point of its packets (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
    /// Links that the rules allowed, if the kernel's program has already judged the connection:
    /// that program may know more facts. `None` if it has not, or if its rules name no links.
    pub among: Option<Vec<LinkIndex>>,
}

impl ConnectionRequest {
    /// Returns the facts for the rules.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            protocol: self.protocol,
            remote: self.remote,
            port: self.port,
            domain: self.domain.as_deref(),
            program: self.program.as_deref(),
            executable: self.executable.as_deref(),
            user: self.user,
            cgroup: self.cgroup.as_deref(),
            dscp: self.dscp,
        }
    }
}
