use serde::{Deserialize, Serialize};

/// How a daemon chooses links: all settings that can change while it runs. The settings of single
/// links are in [`StatusSnapshot::links`](crate::StatusSnapshot::links).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Policy that chooses links for the chunks of a session.
    pub sessions: String,
    /// Every name that may stand there.
    pub sessions_known: Vec<String>,
    /// Policy that chooses links for connections that go over one each; none on a daemon without
    /// such.
    #[serde(default)]
    pub connections: Option<String>,
    /// Every name that may stand there.
    #[serde(default)]
    pub connections_known: Vec<String>,
    /// Policy that chooses links for the packets of tunnels; none on a daemon without such.
    #[serde(default)]
    pub packets: Option<String>,
    /// Every name that may stand there.
    #[serde(default)]
    pub packets_known: Vec<String>,
    /// Transport of sessions in both directions; none where the far end decides.
    #[serde(default)]
    pub transport: Option<String>,
    /// Every name that may stand there.
    #[serde(default)]
    pub transports_known: Vec<String>,
    /// The profile of rules in force.
    #[serde(default)]
    pub profile: Option<String>,
    /// Every name that may stand there.
    #[serde(default)]
    pub profiles_known: Vec<String>,
    /// Use of the gateway where no rule decides: `always`, `auto` or `never`; none where no gateway
    /// is enrolled.
    #[serde(default)]
    pub gateway: Option<String>,
    /// The rules for connections that are not built in, in the order in which they are asked.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// Number of rules. When they would make a message too long, the last ones are not listed.
    #[serde(default)]
    pub rule_count: u64,
    /// The file that changes can be saved to; none where no configuration was named. Rules can be
    /// saved all the same.
    #[serde(default)]
    pub file: Option<String>,
}

/// One rule for connections.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Its number, by which it is removed: as `hawser rule list` shows it.
    pub number: u64,
    /// `user`, `session` (said while the daemon runs, and not saved) or `profile`.
    pub source: String,
    /// Its name, where it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// Conditions of the rule, in words.
    pub when: String,
    /// Effect of the rule, in words.
    pub then: String,
    /// Its keys and values, as [`Request::AddRule`](crate::Request::AddRule) takes them.
    #[serde(default)]
    pub rule: String,
}

/// The traffic that a policy chooses links for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scheduled {
    /// The chunks of sessions.
    Sessions,
    /// Connections that go over one link each.
    Connections,
    /// The packets of tunnels.
    Packets,
}
