use std::net::{Ipv4Addr, SocketAddr};

use crate::document::Section;
use crate::link::{LINK_NAME, read_link_name};
use crate::serve::{read_listen, read_web};
use crate::{ConfigError, GatewaySource};

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
    /// `allow-lan`: allows a `listen` address that other machines reach. The port asks for no
    /// password, so the default is no.
    pub allow_lan: bool,
    /// `web`: address of the dashboard. None by default: it is off.
    pub web: Option<SocketAddr>,
}

impl UpConfig {
    /// Tells whether the port would be open to other machines without permission.
    pub fn is_exposed(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback() && !self.allow_lan
    }
}

impl Default for UpConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PROXY_PORT),
            links: Vec::new(),
            gateway: None,
            allow_lan: false,
            web: None,
        }
    }
}

impl TryFrom<Section<'_>> for UpConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&["listen", "links", "gateway", "allow-lan", "web"])?;
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
        config.web = read_web(&section)?;
        Ok(config)
    }
}

/// Default port of the proxy: the one registered for SOCKS.
pub const DEFAULT_PROXY_PORT: u16 = 1080;
