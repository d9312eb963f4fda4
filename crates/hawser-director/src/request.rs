use std::net::IpAddr;

use hawser_policy::{Facts, Protocol};
use hawser_types::LinkIndex;

/// A connection that an application wants: who asks, and where to. Facts that are not known are
/// `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConnectionRequest {
    /// The protocol.
    pub protocol: Protocol,
    /// The address that it goes to.
    pub remote: Option<IpAddr>,
    /// The port that it goes to.
    pub port: u16,
    /// The name that the application asked for.
    pub domain: Option<String>,
    /// The process's name, as the kernel keeps it (15 bytes at most).
    pub program: Option<String>,
    /// The path of the process's executable.
    pub executable: Option<String>,
    /// The user that it runs as.
    pub user: Option<u32>,
    /// The path of its control group.
    pub cgroup: Option<String>,
    /// The class that it marks its packets with (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
    /// The links that rules left to it, where the kernel's program has judged it already: that
    /// program may know more facts. `None` where it has not, or where its rules name no links.
    pub among: Option<Vec<LinkIndex>>,
}

impl ConnectionRequest {
    /// Gives the facts that rules judge.
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
