use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use hawser_types::{HostName, HostNameAt, MIN_JOIN_PORT};
use ipnet::IpNet;

use crate::address::{read_listen, read_networks};
use crate::directory::{Digest, read_path};
use crate::document::{Field, Section};
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

    fn read_accepted(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        if let Some(field) = section.field("accept-inbound") {
            self.accept_inbound = field.boolean()?;
        }
        if let Some(field) = section.field("accept-joins") {
            let ports = u32::from(MIN_JOIN_PORT)..=u32::from(u16::MAX);
            self.accept_joins = u16::try_from(field.integer(ports)?).ok();
        }
        Ok(())
    }

    fn read_kill_switch(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        if let Some(field) = section.field("kill-switch") {
            self.kill_switch = field.boolean()?;
        }
        if let Some(networks) = read_networks(section, "kill-switch-allow")? {
            self.kill_switch_allow = networks;
        }
        Ok(())
    }

    /// Reads the name in a directory, and what belongs to it.
    fn read_name(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        if let Some(field) = section.field("name") {
            self.name = Some(field.parse("a name such as \"alice@example.org\"")?);
        }
        if let Some(field) = section.field("directory") {
            let allowed = "a URI such as \"sip:example.org\" or \"sip:example.org;transport=tls\"";
            let read = |text: &str| is_sip(text).then(|| text.to_owned());
            self.directory = Some(field.parse_with(read, allowed)?);
        }
        self.directory_password_file = read_path(section, "directory-password-file")?;
        self.directory_certificates = read_path(section, "directory-certificates")?;
        if let Some(field) = section.field("directory-digest") {
            self.directory_digest = field.word(&Digest::WORDS)?;
        }
        if let Some(field) = section.field("offer") {
            let ports = field.list("a list of ports such as [22, 8080]")?;
            let port = |field: &Field<'_>| Ok(field.integer(1..=65_535)? as u16);
            self.offer = ports.iter().map(port).collect::<Result<_, _>>()?;
            if !self.offer.is_empty() && self.name.is_none() {
                return Err(field.wrong("no ports without a name: no peer could reach them"));
            }
        }
        Ok(())
    }

    /// Reads how to go about servers that were never met.
    fn read_discovery(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        if let Some(field) = section.field("discover") {
            self.discover = field.boolean()?;
        }
        if let Some(field) = section.field("require-bonded") {
            self.require_bonded = field.boolean()?;
            if self.require_bonded && !self.discover {
                return Err(field.wrong("false, or discover = true beside it"));
            }
        }
        Ok(())
    }

    /// Reads the names that are held to what their owners vouch for.
    fn read_vouched(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        self.vouched_certificates = read_path(section, "vouched-certificates")?;
        let Some(field) = section.field("vouched") else {
            return Ok(());
        };
        let allowed = "a list of at most 64 names such as [\"example.org\"]";
        let names = field.list(allowed)?;
        let names = names.iter().map(|field| field.parse(allowed));
        self.vouched = names.collect::<Result<_, _>>()?;
        if self.vouched.len() > MAX_VOUCHED {
            Err(field.wrong(allowed))
        } else {
            Ok(())
        }
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

impl TryFrom<Section<'_>> for UpConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&[
            "listen",
            "links",
            "gateway",
            "allow-lan",
            "password-file",
            "no-password",
            "kill-switch",
            "kill-switch-allow",
            "capture",
            "name",
            "directory",
            "directory-password-file",
            "directory-certificates",
            "directory-digest",
            "offer",
            "discover",
            "require-bonded",
            "vouched",
            "vouched-certificates",
            "accept-inbound",
            "accept-joins",
            "web",
        ])?;
        let mut config = Self::default();
        if let Some(field) = section.field("listen") {
            config.listen = read_listen(&field)?;
        }
        config.links = read_link_names(&section, "links")?;
        if let Some(field) = section.field("gateway") {
            config.gateway = Some(read_gateway(&field)?);
        }
        if let Some(field) = section.field("allow-lan") {
            config.allow_lan = field.boolean()?;
        }
        config.password_file = read_path(&section, "password-file")?;
        if let Some(field) = section.field("no-password") {
            config.no_password = field.boolean()?;
            if config.no_password && config.password_file.is_some() {
                return Err(field.wrong("false, or no password-file beside it"));
            }
        }
        config.read_kill_switch(&section)?;
        if let Some(field) = section.field("capture") {
            let allowed = "\"system\", \"cgroup:/PATH\", \"lan:INTERFACE\", or a list of these";
            let read = field.entries().into_iter().map(|it| it.parse(allowed));
            config.capture = read.collect::<Result<_, _>>()?;
        }
        config.read_name(&section)?;
        config.read_discovery(&section)?;
        config.read_vouched(&section)?;
        config.read_accepted(&section)?;
        config.web = read_web(&section)?;
        Ok(config)
    }
}

fn read_gateway(field: &Field<'_>) -> Result<GatewaySource, ConfigError> {
    let allowed = "an invite \"hawser://…\" or \"@FILE\"";
    match field.parse(allowed)? {
        // A service has nothing to read.
        GatewaySource::Stdin => Err(field.wrong(allowed)),
        source => Ok(source),
    }
}

/// Whether a text begins as the URI of a directory does; the rest is read where it is used.
fn is_sip(text: &str) -> bool {
    text.starts_with("sip:") || text.starts_with("sips:")
}

/// Default port of the proxy: the one registered for SOCKS.
pub const DEFAULT_PROXY_PORT: u16 = 1080;
/// Names that may be held to vouchers; each is fetched again every day.
pub const MAX_VOUCHED: usize = 64;
