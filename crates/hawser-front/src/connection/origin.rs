use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use hawser_capture::process::Process;
use hawser_director::ConnectionRequest;
use hawser_net::stream::Label;
use hawser_types::StreamGroup;

use super::{EarlyData, Sought};
use crate::destination::{Destination, Host};

/// The application that asks for a connection. Unknown facts are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Origin {
    /// The name that the application asked for, if its destination is an address.
    pub domain: Option<String>,
    /// The process's name, as the kernel keeps it (15 bytes at most).
    pub program: Option<String>,
    /// The path of the process's executable.
    pub executable: Option<String>,
    /// The user that the application runs as.
    pub user: Option<u32>,
    /// The path of the application's control group.
    pub cgroup: Option<String>,
    /// The class with which the application marks its packets (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
    /// The host that the application runs on, if that is known to be another host.
    pub host: Option<IpAddr>,
    /// Whether the application runs on another machine and must not reach this machine's services
    /// ([`ThisMachine`](crate::this_machine::ThisMachine)).
    pub is_elsewhere: bool,
    /// The search for the process's name, if that is not known yet. It begins at the latest when a
    /// user wants to see the name.
    pub sought: Option<Sought>,
    /// Data that the application has sent already, if it takes the connection for established.
    pub early: Option<EarlyData>,
}

impl Origin {
    /// Returns the label of a stream that this application has asked for. Its text is set once the
    /// program is known. For an application on another host it is that host's address.
    pub(crate) fn label(&self) -> Option<Label> {
        match (&self.program, self.sought.clone()) {
            (Some(program), _) => {
                let program: Arc<str> = program.as_str().into();
                Some(Arc::new(move || Some(Arc::clone(&program))))
            }
            (None, Some(sought)) => Some(Arc::new(move || sought.program())),
            (None, None) => {
                let host: Arc<str> = self.host?.to_string().into();
                Some(Arc::new(move || Some(Arc::clone(&host))))
            }
        }
    }

    /// Returns the group of the application's streams: this and each other host share equally. The
    /// peer can't derive the host's address from the group. Among a thousand hosts, two share a
    /// group once in two thousand times.
    pub(crate) fn group(&self) -> StreamGroup {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let Some(host) = self.host else {
            return StreamGroup::OWN;
        };
        let number = KEY.hash_one(host) as u32 & MAX_GROUP;
        StreamGroup::new(number.max(StreamGroup::OWN.next().value()))
    }

    /// Returns the application's request for a TCP connection to `destination`.
    pub fn towards(&self, destination: &Destination) -> ConnectionRequest {
        let (remote, domain) = match &destination.host {
            Host::Ip(address) => (Some(*address), self.domain.clone()),
            Host::Name(name) => (None, Some(name.as_str().to_owned())),
        };
        ConnectionRequest {
            remote,
            domain,
            port: destination.port,
            program: self.program.clone(),
            executable: self.executable.clone(),
            user: self.user,
            cgroup: self.cgroup.clone(),
            dscp: self.dscp,
            ..ConnectionRequest::default()
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

/// Largest group that fits in four bytes of a frame.
const MAX_GROUP: u32 = (1 << 30) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_group_and_this_one_its_own() {
        let of = |address: Option<&str>| {
            let host = address.map(|it| it.parse().unwrap());
            let origin = Origin {
                host,
                ..Origin::default()
            };
            origin.group()
        };
        assert_eq!(of(None), StreamGroup::OWN);
        let groups = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|it| of(Some(it)));
        assert!(groups.iter().all(|it| *it != StreamGroup::OWN));
        assert!(groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2]);
        assert_eq!(of(Some("10.0.0.1")), groups[0]);
    }
}
