//! The settings and rules of the policy, and their possible values.

use hawser_control::{PolicyStatus, Scheduled};

use super::input::Then;

/// A line of the policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PolicyKey {
    Scheduler(Scheduled),
    TransportChoice,
    Gateway,
    Profile,
    Rule(u64),
}

/// Possible values of one line.
pub(super) struct Choice {
    pub(super) title: &'static str,
    pub(super) now: Option<String>,
    pub(super) known: Vec<String>,
    pub(super) then: Then,
}

/// Returns the lines in their order.
pub(super) fn keys(policy: Option<&PolicyStatus>) -> Vec<PolicyKey> {
    let Some(policy) = policy else {
        return Vec::new();
    };
    let rules = policy.rules.iter();
    let rules = rules.map(|rule| PolicyKey::Rule(rule.number));
    SETTINGS.into_iter().chain(rules).collect()
}

/// Returns the possible values of a setting; `None` for a rule.
pub(super) fn choice(policy: &PolicyStatus, key: &PolicyKey) -> Option<Choice> {
    let choice = |title, now, known, then| Choice {
        title,
        now,
        known,
        then,
    };
    Some(match key {
        PolicyKey::Scheduler(Scheduled::Connections) => choice(
            "links for connections are chosen by",
            policy.connections.clone(),
            policy.connections_known.clone(),
            Then::Scheduler(Scheduled::Connections),
        ),
        PolicyKey::Scheduler(Scheduled::Packets) => choice(
            "links for packets are chosen by",
            policy.packets.clone(),
            policy.packets_known.clone(),
            Then::Scheduler(Scheduled::Packets),
        ),
        PolicyKey::Scheduler(of) => choice(
            "links for sessions are chosen by",
            Some(policy.sessions.clone()),
            policy.sessions_known.clone(),
            Then::Scheduler(*of),
        ),
        PolicyKey::TransportChoice => choice(
            "sessions travel over",
            policy.transport.clone(),
            policy.transports_known.clone(),
            Then::TransportChoice,
        ),
        PolicyKey::Gateway => {
            let known = match &policy.gateway {
                Some(_) => GATEWAY_USES.map(str::to_owned).to_vec(),
                None => Vec::new(),
            };
            choice(
                "the gateway is used",
                policy.gateway.clone(),
                known,
                Then::Gateway,
            )
        }
        PolicyKey::Profile => {
            let (now, known) = (policy.profile.clone(), policy.profiles_known.clone());
            choice("profile of rules", now, known, Then::Profile)
        }
        PolicyKey::Rule(_) => return None,
    })
}

const SETTINGS: [PolicyKey; 6] = [
    PolicyKey::Scheduler(Scheduled::Sessions),
    PolicyKey::Scheduler(Scheduled::Connections),
    PolicyKey::Scheduler(Scheduled::Packets),
    PolicyKey::TransportChoice,
    PolicyKey::Gateway,
    PolicyKey::Profile,
];
const GATEWAY_USES: [&str; 3] = ["always", "auto", "never"];
