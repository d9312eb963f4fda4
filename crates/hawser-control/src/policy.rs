use serde::{Deserialize, Serialize};

/// How a daemon chooses links: all that can be changed while it runs, but for links themselves,
/// which [`StatusSnapshot::links`](crate::StatusSnapshot::links) has.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// What chooses links for the chunks of a session.
    pub sessions: String,
    /// Every name that may stand there.
    pub sessions_known: Vec<String>,
    /// What chooses links for connections that go over one each; none where there are no such.
    #[serde(default)]
    pub connections: Option<String>,
    /// Every name that may stand there.
    #[serde(default)]
    pub connections_known: Vec<String>,
    /// What sessions travel over, both ways; none where that is the far end's to say.
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
    /// What the gateway is used for where no rule says it: `always`, `auto` or `never`; none where
    /// no gateway is enrolled.
    #[serde(default)]
    pub gateway: Option<String>,
    /// The rules for connections that are not built in, in the order in which they are asked.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// How many there are. Where they would make a message too long, the last ones are not listed.
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
    /// What it applies to, in words.
    pub when: String,
    /// What it says, in words.
    pub then: String,
    /// Its keys and values, as [`Request::AddRule`](crate::Request::AddRule) takes them.
    #[serde(default)]
    pub rule: String,
}

/// What a policy chooses links for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scheduled {
    /// The chunks of sessions.
    Sessions,
    /// Connections that go over one link each.
    Connections,
}
