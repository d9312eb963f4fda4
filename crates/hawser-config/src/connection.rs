use std::time::Duration;

use hawser_policy::Profile;
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_types::ByteCount;

use crate::document::{Field, key};
use crate::{ConfigError, HttpUrl};

/// `[connection]`: connections that each go over one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// `scheduler`: policy that chooses a connection's link. Default `"auto"`.
    pub scheduler: ConnectionPolicy,
    /// `profile`: the set of rules from Hawser that is in force. Default `"speed"`.
    pub profile: Profile,
    /// `gateway`: connections that use the gateway, where one is enrolled and no rule decides:
    /// `"always"` all of them, the default; `"auto"` those that gain by it; `"never"` none.
    pub gateway: GatewayUse,
    /// `peers`: whether destinations are probed for peers that this machine has enrolled with, and
    /// connections to them bonded. `"auto"`, the default, or `"off"`.
    pub peers: bool,
    /// `peer-retry`: pause before an address without a peer is probed again. From 1 s to a day,
    /// default a minute.
    pub peer_retry: Duration,
    /// `peer-fallback`: whether connections to an address go over plain TCP where the peer there
    /// has carried some and does not answer any more. Default false: they are refused.
    pub peer_fallback: bool,
    /// `private-names`: whether names may lead to private addresses, whichever server answers.
    /// Default true.
    pub private_names: bool,
    /// `mptcp`: whether destinations are offered Multipath TCP, where this system has it: `"auto"`.
    /// Default `"off"`.
    pub mptcp: bool,
    /// `portal-checks`: pages that reveal captive portals on a link. None by default: Hawser
    /// contacts no server that the user did not name.
    pub portal_checks: Vec<HttpUrl>,
    /// `probe-downloads`: pages to measure what links can receive. None by default.
    pub probe_downloads: Vec<HttpUrl>,
    /// `probe-uploads`: pages that take what is posted to them, to measure what links can send.
    /// None by default.
    pub probe_uploads: Vec<HttpUrl>,
    /// `probe-budget`: maximum data for measurements over each link in a day. Default 10 MB.
    pub probe_budget: ByteCount,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            scheduler: ConnectionPolicy::default(),
            profile: Profile::default(),
            gateway: GatewayUse::default(),
            peers: true,
            peer_retry: DEFAULT_PEER_RETRY,
            peer_fallback: false,
            private_names: true,
            mptcp: false,
            portal_checks: Vec::new(),
            probe_downloads: Vec::new(),
            probe_uploads: Vec::new(),
            probe_budget: DEFAULT_PROBE_BUDGET,
        }
    }
}

impl ConnectionConfig {
    pub(crate) fn read(section: &Field<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        section.read_keys(vec![
            key("scheduler", &mut config.scheduler, |f| {
                f.named(&ConnectionPolicy::ALL, ConnectionPolicy::name)
            }),
            key("profile", &mut config.profile, |f| {
                f.named(Profile::ALL, Profile::name)
            }),
            key("gateway", &mut config.gateway, |f| {
                f.named(&GatewayUse::ALL, GatewayUse::name)
            }),
            key("peers", &mut config.peers, |f| {
                f.word(&[("auto", true), ("off", false)])
            }),
            key("peer-retry", &mut config.peer_retry, |f| {
                f.duration(MIN_PEER_RETRY..=MAX_PEER_RETRY, "a time from 1s to 1d")
            }),
            key("peer-fallback", &mut config.peer_fallback, Field::boolean),
            key("private-names", &mut config.private_names, Field::boolean),
            key("mptcp", &mut config.mptcp, |f| {
                f.word(&[("off", false), ("auto", true)])
            }),
            key("portal-checks", &mut config.portal_checks, read_urls),
            key("probe-downloads", &mut config.probe_downloads, read_urls),
            key("probe-uploads", &mut config.probe_uploads, read_urls),
            key("probe-budget", &mut config.probe_budget, |f| {
                f.parse("a size such as \"10MB\", or \"0B\" for none")
            }),
        ])?;
        Ok(config)
    }
}

fn read_urls(field: &Field<'_>) -> Result<Vec<HttpUrl>, ConfigError> {
    field.list(URLS, |url| url.parse(URL))
}

const URL: &str = "a URL such as \"http://check.example/generate_204\"";
const URLS: &str = "a list of URLs such as [\"http://check.example/generate_204\"]";
const DEFAULT_PROBE_BUDGET: ByteCount = ByteCount::new(10_000_000);
const DEFAULT_PEER_RETRY: Duration = Duration::from_secs(60);
const MIN_PEER_RETRY: Duration = Duration::from_secs(1);
const MAX_PEER_RETRY: Duration = Duration::from_secs(86_400);
