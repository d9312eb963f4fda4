use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use hawser_types::{HostName, HostNameAt, MIN_JOIN_PORT};
use ipnet::IpNet;

use crate::address::{read_listen, read_networks};
use crate::directory::{Digest, read_path};
use crate::document::{Field, key, optional};
use crate::link::read_link_names;
use crate::serve::read_web;
use crate::{CaptureScope, ConfigError, GatewaySource};

/// `[up]`: the proxy port and the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpConfig {
    /// `listen`: address for applications. Default `127.0.0.1:1080`.
    pub listen: SocketAddr,
    /// `links`: the interfaces to use, exclusively. Empty by default: every link with a route to
    /// the internet.
    pub links: Vec<String>,
    /// `gateway`: an invite or `@FILE` with one. None by default: the gateway enrolled with before.
    pub gateway: Option<GatewaySource>,
    /// `allow-lan`: allows a `listen` address that other machines reach, with a password. Default:
    /// no.
    pub allow_lan: bool,
    /// `password-file`: file with one line `USER:PASSWORD`, which the port asks every client for.
    /// None by default.
    pub password_file: Option<PathBuf>,
    /// `no-password`: lets other machines use the port without a password. Default: no.
    pub no_password: bool,
    /// `kill-switch`: lets nothing leave this machine past Hawser, also after it has ended.
    /// Default: no.
    pub kill_switch: bool,
    /// `kill-switch-allow`: networks that all programs reach all the same. Empty by default.
    pub kill_switch_allow: Vec<IpNet>,
    /// `capture`: whose traffic is captured, one of these or a list. Empty by default.
    pub capture: Vec<CaptureScope>,
    /// `name`: name of this host in a directory, such as `alice@example.org`. None by default: the
    /// host is in no directory.
    pub name: Option<HostNameAt>,
    /// `directory`: URI of that directory. Default: that of the name's domain.
    pub directory: Option<String>,
    /// `directory-password-file`: file whose only line is the password. Default: the variable
    /// `HAWSER_DIRECTORY_PASSWORD`.
    pub directory_password_file: Option<PathBuf>,
    /// `directory-certificates`: file with the certificates that a directory's is checked against,
    /// in PEM. Default: the system's.
    pub directory_certificates: Option<PathBuf>,
    /// `directory-digest`: the weakest hash that the password is proved by. Default SHA-256.
    pub directory_digest: Digest,
    /// `offer`: TCP ports of this host's own that hosts known by name may reach. Empty by
    /// default.
    pub offer: Vec<u16>,
    /// `discover`: looks for Hawser on servers that this host has not enrolled with. Default: no.
    pub discover: bool,
    /// `require-bonded`: refuses connections to a server whose key was found by that, rather than
    /// have them go without a session. Default: no.
    pub require_bonded: bool,
    /// `vouched`: names whose connections go over a session with a key that their owners vouch for,
    /// or nowhere; 64 at most. Empty by default.
    pub vouched: Vec<HostName>,
    /// `vouched-certificates`: file with the certificates that such names' are checked against, in
    /// PEM. Default: the system's.
    pub vouched_certificates: Option<PathBuf>,
    /// `accept-inbound`: lets others begin flows of packets to this machine, and the hosts behind
    /// it, by a gateway that routes them here, whose inner addresses may be public then. Default:
    /// no.
    pub accept_inbound: bool,
    /// `accept-joins`: TCP port of this host's own at which its gateway may connect to it, to add
    /// channels to the session. From 1024 on. None by default: nothing listens.
    pub accept_joins: Option<u16>,
    /// `web`: address of the dashboard. None by default: it is off.
    pub web: Option<SocketAddr>,
}

impl UpConfig {
    /// Tells whether the port would be open to other machines without permission.
    pub fn is_exposed(&self) -> bool {
        self.is_reachable() && !self.allow_lan
    }

    /// Tells whether the port would ask other machines for no password although that was not
    /// allowed.
    pub fn lacks_password(&self) -> bool {
        self.is_reachable() && self.password_file.is_none() && !self.no_password
    }

    pub(crate) fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut up = Self::default();
        section.read_keys(vec![
            key("listen", &mut up.listen, read_listen),
            key("links", &mut up.links, read_link_names),
            optional("gateway", &mut up.gateway, read_gateway),
            key("allow-lan", &mut up.allow_lan, Field::boolean),
            optional("password-file", &mut up.password_file, read_path),
            key("no-password", &mut up.no_password, Field::boolean),
            key("kill-switch", &mut up.kill_switch, Field::boolean),
            key(
                "kill-switch-allow",
                &mut up.kill_switch_allow,
                read_networks,
            ),
            key("capture", &mut up.capture, |f| {
                f.entries()
                    .iter()
                    .map(|scope| scope.parse(CAPTURE))
                    .collect()
            }),
            optional("name", &mut up.name, |f| {
                f.parse("a name such as \"alice@example.org\"")
            }),
            optional("directory", &mut up.directory, read_directory),
            optional(
                "directory-password-file",
                &mut up.directory_password_file,
                read_path,
            ),
            optional(
                "directory-certificates",
                &mut up.directory_certificates,
                read_path,
            ),
            key("directory-digest", &mut up.directory_digest, |f| {
                f.word(&Digest::WORDS)
            }),
            key("offer", &mut up.offer, |f| {
                let port = |f: &Field<'_>| f.integer(1..=65_535).map(|port| port as u16);
                f.list("a list of ports such as [22, 8080]", port)
            }),
            key("discover", &mut up.discover, Field::boolean),
            key("require-bonded", &mut up.require_bonded, Field::boolean),
            key("vouched", &mut up.vouched, |f| {
                f.list(VOUCHED, |f| f.parse(VOUCHED))
            }),
            optional(
                "vouched-certificates",
                &mut up.vouched_certificates,
                read_path,
            ),
            key("accept-inbound", &mut up.accept_inbound, Field::boolean),
            optional("accept-joins", &mut up.accept_joins, |f| {
                f.integer(MIN_JOIN_PORT.into()..=65_535)
                    .map(|port| port as u16)
            }),
            optional("web", &mut up.web, read_web),
        ])?;
        up.check(section)
    }

    /// Refuses values that do not fit each other.
    fn check(self, section: &Field<'_>) -> Result<Self, ConfigError> {
        let unsound = if self.no_password && self.password_file.is_some() {
            ("no-password", "false, or no password-file beside it")
        } else if !self.offer.is_empty() && self.name.is_none() {
            ("offer", "no ports without a name: no peer could reach them")
        } else if self.require_bonded && !self.discover {
            ("require-bonded", "false, or discover = true beside it")
        } else if self.vouched.len() > MAX_VOUCHED {
            ("vouched", VOUCHED)
        } else {
            return Ok(self);
        };
        Err(section.refuse(unsound.0, unsound.1))
    }

    fn is_reachable(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback()
    }
}

impl Default for UpConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PROXY_PORT),
            links: Vec::new(),
            gateway: None,
            allow_lan: false,
            password_file: None,
            no_password: false,
            kill_switch: false,
            kill_switch_allow: Vec::new(),
            capture: Vec::new(),
            name: None,
            directory: None,
            directory_password_file: None,
            directory_certificates: None,
            directory_digest: Digest::Sha256,
            offer: Vec::new(),
            discover: false,
            require_bonded: false,
            vouched: Vec::new(),
            vouched_certificates: None,
            accept_inbound: false,
            accept_joins: None,
            web: None,
        }
    }
}

fn read_gateway(field: &Field<'_>) -> Result<GatewaySource, ConfigError> {
    // A service has nothing to read.
    let is_allowed = |source: &GatewaySource| *source != GatewaySource::Stdin;
    field.parse_if(is_allowed, "an invite \"hawser://…\" or \"@FILE\"")
}

/// Reads the URI of a directory by its beginning; the rest is read where it is used.
fn read_directory(field: &Field<'_>) -> Result<String, ConfigError> {
    let is_sip = |uri: &String| uri.starts_with("sip:") || uri.starts_with("sips:");
    let allowed = "a URI such as \"sip:example.org\" or \"sip:example.org;transport=tls\"";
    field.parse_if(is_sip, allowed)
}

const CAPTURE: &str = "\"system\", \"cgroup:/PATH\", \"lan:INTERFACE\", or a list of these";
const VOUCHED: &str = "a list of at most 64 names such as [\"example.org\"]";
/// Default port of the proxy: the one registered for SOCKS.
pub const DEFAULT_PROXY_PORT: u16 = 1080;
/// Names that may be held to vouchers; each is fetched again every day.
pub const MAX_VOUCHED: usize = 64;
