use std::time::Duration;

use hawser_policy::Profile;
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_types::ByteCount;

use crate::document::Section;
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

impl TryFrom<Section<'_>> for ConnectionConfig {
    type Error = ConfigError;

    fn try_from(section: Section<'_>) -> Result<Self, ConfigError> {
        section.allow_only(&[
            "scheduler",
            "profile",
            "gateway",
            "peers",
            "peer-retry",
            "peer-fallback",
            "private-names",
            "mptcp",
            "portal-checks",
            "probe-downloads",
            "probe-uploads",
            "probe-budget",
        ])?;
        let mut config = Self::default();
        if let Some(field) = section.field("scheduler") {
            config.scheduler = field.named(&ConnectionPolicy::ALL, ConnectionPolicy::name)?;
        }
        if let Some(field) = section.field("profile") {
            config.profile = field.named(Profile::ALL, Profile::name)?;
        }
        if let Some(field) = section.field("gateway") {
            config.gateway = field.named(&GatewayUse::ALL, GatewayUse::name)?;
        }
        if let Some(field) = section.field("peers") {
            config.peers = field.word(&[("auto", true), ("off", false)])?;
        }
        if let Some(field) = section.field("peer-retry") {
            config.peer_retry = field.parse_with(read_retry, "a time from 1s to 1d")?;
        }
        for (key, value) in [
            ("peer-fallback", &mut config.peer_fallback),
            ("private-names", &mut config.private_names),
        ] {
            if let Some(field) = section.field(key) {
                *value = field.boolean()?;
            }
        }
        if let Some(field) = section.field("mptcp") {
            config.mptcp = field.word(&[("off", false), ("auto", true)])?;
        }
        for (key, urls) in [
            ("portal-checks", &mut config.portal_checks),
            ("probe-downloads", &mut config.probe_downloads),
            ("probe-uploads", &mut config.probe_uploads),
        ] {
            if let Some(field) = section.field(key) {
                let listed = field.list(URLS)?;
                let read = listed.iter().map(|url| url.parse(URL));
                *urls = read.collect::<Result<_, _>>()?;
            }
        }
        if let Some(field) = section.field("probe-budget") {
            config.probe_budget = field.parse("a size such as \"10MB\", or \"0B\" for none")?;
        }
        Ok(config)
    }
}

fn read_retry(text: &str) -> Option<Duration> {
    let span = hawser_types::parse_duration(text).ok()?;
    (MIN_PEER_RETRY..=MAX_PEER_RETRY)
        .contains(&span)
        .then_some(span)
}

const URL: &str = "a URL such as \"http://check.example/generate_204\"";
const URLS: &str = "a list of URLs such as [\"http://check.example/generate_204\"]";
const DEFAULT_PROBE_BUDGET: ByteCount = ByteCount::new(10_000_000);
const DEFAULT_PEER_RETRY: Duration = Duration::from_secs(60);
const MIN_PEER_RETRY: Duration = Duration::from_secs(1);
const MAX_PEER_RETRY: Duration = Duration::from_secs(86_400);
