//! A machine with two links and a server far away, each a network namespace.

use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

/// A network namespace, which exists as long as a process in it.
pub(crate) struct Namespace(Child);

impl Namespace {
    /// `None` if the system forbids that.
    pub(crate) fn new() -> Option<Self> {
        // It says something when the namespace is there, and lasts until its input ends.
        let child = Command::new("unshare")
            .args([
                "--net",
                "--",
                "sh",
                "-c",
                "ip link set lo up && echo && cat",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut namespace = Self(child.ok()?);
        let out = namespace.0.stdout.as_mut()?;
        out.read_exact(&mut [0]).ok()?;
        Some(namespace)
    }

    /// A command that will run there.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let pid = self.0.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--"]).arg(program);
        command
    }

    /// A process there.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Runs `ip` there with these arguments, separated by blanks.
    pub(crate) fn ip(&self, arguments: &str) {
        let status = self.command("ip").args(arguments.split(' ')).status();
        assert!(status.unwrap().success(), "ip {arguments}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client with two links, each with a default route, and a server at [`SERVER`] that both links
/// reach.
pub(crate) struct TwoLinks {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    names: [&'static str; 2],
}

impl TwoLinks {
    /// Creates the links `up1` and `up2`. `None`, with a report, if the system forbids that.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::named(test, ["up1", "up2"])
    }

    /// The same with links of these names.
    pub(crate) fn named(test: &str, names: [&'static str; 2]) -> Option<Self> {
        let (Some(client), Some(server)) = (Namespace::new(), Namespace::new()) else {
            hawser_skip::skip(
                &format!("real_clients::{test}"),
                "no network namespaces here",
            );
            return None;
        };
        server.ip(&format!("address add {SERVER}/32 dev lo"));
        server.ip(&format!("address add {SERVER_V6}/128 dev lo nodad"));
        for (n, link) in (1..).zip(names) {
            let (peer, far) = (format!("far{n}"), server.0.id());
            client.ip(&format!(
                "link add {link} type veth peer name {peer} netns {far}"
            ));
            for (end, name, host) in [(&client, link, 2), (&server, &peer, 1)] {
                end.ip(&format!("address add 10.7.{n}.{host}/24 dev {name}"));
                end.ip(&format!(
                    "address add 2001:db8:{n}::{host}/64 dev {name} nodad"
                ));
                // Addresses that come by themselves come later: browsers then give up what they
                // load.
                end.ip(&format!("link set {name} addrgenmode none"));
                end.ip(&format!("link set {name} up"));
            }
            let metric = 100 + n;
            for gateway in [format!("10.7.{n}.1"), format!("2001:db8:{n}::1")] {
                client.ip(&format!(
                    "route add default via {gateway} dev {link} metric {metric}"
                ));
            }
        }
        Some(Self {
            client,
            server,
            names,
        })
    }

    /// Gives the links these rates in Mbit/s, both ways, behind queues of some 50 ms.
    pub(crate) fn shape(&self, rates: [u32; 2]) {
        for ((n, link), rate) in (1..).zip(self.names).zip(rates) {
            for (end, name) in [(&self.client, link), (&self.server, &format!("far{n}"))] {
                let shape = format!("{name} root tbf rate {rate}mbit burst 16kb latency 50ms");
                let mut tc = end.command("tc");
                tc.args(["qdisc", "add", "dev"]).args(shape.split(' '));
                assert!(tc.status().unwrap().success(), "{shape}");
            }
        }
    }

    /// Bytes that the client has received by each link.
    pub(crate) fn received(&self) -> [u64; 2] {
        let output = self.client.command("cat").arg("/proc/net/dev").output();
        let table = String::from_utf8(output.unwrap().stdout).unwrap();
        self.names.map(|name| {
            let line = table.lines().find_map(|line| {
                let line = line.trim().strip_prefix(name)?;
                line.strip_prefix(':')
            });
            let bytes = line.and_then(|line| line.split_whitespace().next());
            bytes.unwrap().parse().unwrap()
        })
    }
}

pub(crate) const SERVER: &str = "203.0.113.1";
pub(crate) const SERVER_V6: &str = "2001:db8:5::1";
