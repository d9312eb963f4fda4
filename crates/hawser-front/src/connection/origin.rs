use std::net::IpAddr;
use std::sync::Arc;

use hawser_capture::process::Process;
use hawser_net::stream::Label;
use hawser_policy::{Facts, Protocol};
use hawser_types::LinkIndex;

use super::Sought;
use crate::destination::{Destination, Host};

/// Who wants a connection, and where to: the facts that rules and estimates go by. What is not known
/// is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Origin {
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
    /// The links that the rules leave it, where somebody has judged it who knows more than the facts
    /// above; `None` where nobody has, or they name none.
    pub among: Option<Vec<LinkIndex>>,
    /// Where the process's name is not known, who can be asked for it when somebody wants to see it.
    pub sought: Option<Sought>,
}

impl Origin {
    /// The same as rules read it.
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

    /// Says whose a stream is that this origin has asked for, as soon as that is known.
    pub(crate) fn label(&self) -> Option<Label> {
        match (&self.program, self.sought.clone()) {
            (Some(program), _) => {
                let program: Arc<str> = program.as_str().into();
                Some(Arc::new(move || Some(Arc::clone(&program))))
            }
            (None, Some(sought)) => Some(Arc::new(move || sought.program())),
            (None, None) => None,
        }
    }

    /// The same asker, towards `destination`.
    pub fn towards(&self, destination: &Destination) -> Self {
        let (remote, domain) = match &destination.host {
            Host::Ip(address) => (Some(*address), self.domain.clone()),
            Host::Name(name) => (None, Some(name.as_str().to_owned())),
        };
        Self {
            remote,
            domain,
            port: destination.port,
            ..self.clone()
        }
    }
}

impl From<Process> for Origin {
    fn from(process: Process) -> Self {
        let executable = process.executable.map(|path| path.into_os_string());
        Self {
            program: process.name,
            executable: executable.and_then(|path| path.into_string().ok()),
            user: process.user,
            cgroup: process.cgroup,
            ..Self::default()
        }
    }
}
