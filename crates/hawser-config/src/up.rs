use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

use crate::directory::read_path;
use crate::document::Section;
use crate::link::{LINK_NAME, read_link_name};
use crate::serve::{read_listen, read_web};
use crate::{CaptureScope, ConfigError, GatewaySource, read_network};

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
    /// `capture`: whose traffic is captured, one of these or a list. Nobody's by default.
    pub capture: Vec<CaptureScope>,
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
            "web",
        ])?;
        let mut config = Self::default();
        if let Some(field) = section.field("listen") {
            config.listen = read_listen(&field)?;
        }
        if let Some(field) = section.field("links") {
            let names = field.list("a list of interfaces such as [\"eth0\", \"wwan0\"]")?;
            let read = names
                .iter()
                .map(|f| f.parse_with(read_link_name, LINK_NAME));
            config.links = read.collect::<Result<_, _>>()?;
        }
        if let Some(field) = section.field("gateway") {
            config.gateway = Some(field.parse("an invite \"hawser://…\" or \"@FILE\"")?);
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
        if let Some(field) = section.field("kill-switch") {
            config.kill_switch = field.boolean()?;
        }
        if let Some(field) = section.field("kill-switch-allow") {
            let allowed = "a list of networks such as \"192.168.7.0/24\" or \"fd00::/8\"";
            let networks = field.list(allowed)?;
            let read = networks.iter().map(|f| f.parse_with(read_network, allowed));
            config.kill_switch_allow = read.collect::<Result<_, _>>()?;
        }
        if let Some(field) = section.field("capture") {
            let allowed = "\"system\", \"cgroup:/PATH\", \"lan:INTERFACE\", or a list of these";
            let entries = field.entries();
            let read = entries.iter().map(|field| field.parse(allowed));
            config.capture = read.collect::<Result<_, _>>()?;
        }
        config.web = read_web(&section)?;
        Ok(config)
    }
}

/// Default port of the proxy: the one registered for SOCKS.
pub const DEFAULT_PROXY_PORT: u16 = 1080;
