use serde::{Deserialize, Serialize};

/// Link choice of a daemon: all settings that can change while it runs. The settings of single
/// links are in [`StatusSnapshot::links`](crate::StatusSnapshot::links).
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Policy that chooses links for the chunks of a session.
    pub sessions: String,
    /// All valid names of such a policy.
    pub sessions_known: Vec<String>,
    /// Policy that chooses links for connections over one link each; `None` on a daemon without
    /// such connections.
    #[serde(default)]
    pub connections: Option<String>,
    /// All valid names of such a policy.
    #[serde(default)]
    pub connections_known: Vec<String>,
    /// Policy that chooses links for the packets of tunnels; `None` on a daemon without tunnels.
    #[serde(default)]
    pub packets: Option<String>,
    /// All valid names of such a policy.
    #[serde(default)]
    pub packets_known: Vec<String>,
    /// Transport of sessions in both directions; `None` if the far end decides.
    #[serde(default)]
    pub transport: Option<String>,
    /// All valid names of a transport.
    #[serde(default)]
    pub transports_known: Vec<String>,
    /// The profile of rules in force.
    #[serde(default)]
    pub profile: Option<String>,
    /// All valid names of a profile.
    #[serde(default)]
    pub profiles_known: Vec<String>,
    /// Use of the gateway where no rule decides: `always`, `auto` or `never`; `None` if no gateway
    /// is enrolled.
    #[serde(default)]
    pub gateway: Option<String>,
    /// Rules for connections that are not built in, in the order of evaluation.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// Number of rules. If they would make a message too long, the last ones are not listed.
    #[serde(default)]
    pub rule_count: u64,
    /// File for saved changes; `None` if no configuration file was given. Rules can be saved in any
    /// case.
    #[serde(default)]
    pub file: Option<String>,
}

/// One rule for connections.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Its number, for removal, as in `hawser rule list`.
    pub number: u64,
    /// `user`, `session` (added while the daemon runs, and not saved) or `profile`.
    pub source: String,
    /// Its name, where it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// Conditions of the rule, in words.
    pub when: String,
    /// Effect of the rule, in words.
    pub then: String,
    /// Its keys and values, in the form of [`Request::AddRule`](crate::Request::AddRule).
    #[serde(default)]
    pub rule: String,
}

/// The traffic that a policy chooses links for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduled {
    /// The chunks of sessions.
    Sessions,
    /// Connections that go over one link each.
    Connections,
    /// The packets of tunnels.
    Packets,
}
