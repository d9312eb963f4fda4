//! Changes between two snapshots of a daemon.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Change, ConnectionsStatus, LinkAllowed, LinkState, LinkStatus, NotBondedStatus, PathState,
    PolicyStatus, RegistrationStatus, Scheduled, SessionState, SessionStatus, StatusSnapshot,
    VouchedStatus,
};

/// Returns the changes from one snapshot of a daemon to a later one, links before sessions.
///
/// Objects that appeared and disappeared between them are not reported.
pub fn changes_between(before: &StatusSnapshot, after: &StatusSnapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    links(&mut changes, &before.links, &after.links);
    if let (Some(before), Some(after)) = (&before.connections, &after.connections) {
        connections(&mut changes, before, after);
    }
    if let Some(after) = &after.registration {
        registration(&mut changes, before.registration.as_ref(), after);
    }
    sessions(&mut changes, &before.sessions, &after.sessions);
    changes
}

/// Adds servers without bonding, changed reasons, and servers that are bonded again.
fn not_bonded(changes: &mut Vec<Change>, before: &[NotBondedStatus], after: &[NotBondedStatus]) {
    let mut told = |server, reason| changes.push(Change::NotBonded { server, reason });
    for one in after.iter().filter(|one| !before.contains(one)) {
        told(one.server, Some(one.reason.clone()));
    }
    let is_over = |one: &&NotBondedStatus| after.iter().all(|it| it.server != one.server);
    for one in before.iter().filter(is_over) {
        told(one.server, None);
    }
}

/// Adds names whose connections are newly refused, or no longer refused.
fn vouched(changes: &mut Vec<Change>, before: &[VouchedStatus], after: &[VouchedStatus]) {
    for one in after {
        let before = before.iter().find(|it| it.name == one.name);
        if before.and_then(|it| it.refused.as_ref()) != one.refused.as_ref() {
            let (name, refused) = (one.name.clone(), one.refused.clone());
            changes.push(Change::Vouched { name, refused });
        }
    }
}

/// Adds a change of the registration; a new reason counts only while there is no registration.
fn registration(
    changes: &mut Vec<Change>,
    before: Option<&RegistrationStatus>,
    after: &RegistrationStatus,
) {
    let state = |it: &RegistrationStatus| {
        let reason = it.reason.clone().filter(|_| !it.is_registered);
        (it.is_registered, reason)
    };
    let nothing = (false, None);
    if before.map_or(nothing, state) != state(after) {
        let (is_registered, reason) = state(after);
        changes.push(Change::Registration {
            name: after.name.clone(),
            is_registered,
            reason,
        });
    }
}

/// Returns the changes in how a daemon chooses links.
pub fn policy_changes(before: &PolicyStatus, after: &PolicyStatus) -> Vec<Change> {
    let scheduler = |of: Scheduled, from: &String, to: &String| {
        (from != to).then(|| Change::Scheduler {
            of,
            from: from.clone(),
            to: to.clone(),
        })
    };
    let of_sessions = scheduler(Scheduled::Sessions, &before.sessions, &after.sessions);
    let connections = before.connections.as_ref().zip(after.connections.as_ref());
    let of_connections =
        connections.and_then(|(from, to)| scheduler(Scheduled::Connections, from, to));
    let packets = before.packets.as_ref().zip(after.packets.as_ref());
    let of_packets = packets.and_then(|(from, to)| scheduler(Scheduled::Packets, from, to));
    let has_other_rules = before.rules != after.rules || before.profile != after.profile;
    let own = after.rules.iter().filter(|rule| rule.source != "profile");
    let rules = has_other_rules.then(|| Change::Rules {
        count: own.count() as u64,
        profile: after.profile.clone().unwrap_or_default(),
    });
    let all = of_sessions.into_iter().chain(of_connections);
    all.chain(of_packets).chain(rules).collect()
}

fn links(changes: &mut Vec<Change>, before: &[LinkStatus], after: &[LinkStatus]) {
    let (old, new) = (by(before, |it| &it.name), by(after, |it| &it.name));
    let gone = old.keys().filter(|name| !new.contains_key(**name));
    changes.extend(gone.map(|name| Change::LinkGone {
        link: (*name).to_owned(),
    }));
    for link in after {
        match old.get(link.name.as_str()) {
            None => changes.push(Change::LinkAppeared {
                link: link.name.clone(),
                state: link.state,
            }),
            Some(before) => one_link(changes, before, link),
        }
    }
}

fn one_link(changes: &mut Vec<Change>, before: &LinkStatus, after: &LinkStatus) {
    let link = || after.name.clone();
    if before.state != after.state {
        changes.push(Change::LinkState {
            link: link(),
            from: before.state,
            to: after.state,
            reason: after
                .reason
                .clone()
                .filter(|_| after.state != LinkState::Up),
            since_unix_ms: after.since_unix_ms.filter(|_| after.state != LinkState::Up),
        });
    }
    let addresses = |link: &LinkStatus| link.addresses.iter().copied().collect::<BTreeSet<_>>();
    let (from, to) = (addresses(before), addresses(after));
    if from != to {
        changes.push(Change::LinkAddresses {
            link: link(),
            from: from.into_iter().collect(),
            to: to.into_iter().collect(),
        });
    }
    let signal = |link: &LinkStatus| link.signal.map(|it| it.state).unwrap_or_default();
    if signal(before) != signal(after) {
        changes.push(Change::LinkSignal {
            link: link(),
            from: signal(before),
            to: signal(after),
            strength: after.signal.map(|it| it.strength),
        });
    }
    if let Some(standby) = after
        .standby
        .as_ref()
        .filter(|it| before.standby.as_ref() != Some(it))
    {
        changes.push(Change::LinkStandby {
            link: link(),
            from: before.standby.as_ref().map(|it| it.state),
            to: standby.state,
            reason: standby.reason.clone(),
        });
    }
    link_use(changes, before, after);
}

fn link_use(changes: &mut Vec<Change>, before: &LinkStatus, after: &LinkStatus) {
    // A link that is used normally and has carried nothing is no change.
    let nothing = LinkAllowed::default();
    let old = before.allowed.as_ref().unwrap_or(&nothing);
    let new = after.allowed.as_ref().unwrap_or(&nothing);
    if (old.up, old.down) != (new.up, new.down) {
        changes.push(Change::LinkUse {
            link: after.name.clone(),
            up: new.up,
            down: new.down,
        });
    }
    if old.limit != new.limit {
        changes.push(Change::Allowance {
            link: after.name.clone(),
            limit: new.limit.clone(),
        });
    }
}

fn connections(changes: &mut Vec<Change>, before: &ConnectionsStatus, after: &ConnectionsStatus) {
    let old = by(&before.links, |it| &it.name);
    for link in &after.links {
        let before = old.get(link.name.as_str());
        if let Some(before) = before.filter(|before| before.state != link.state) {
            changes.push(Change::LinkHealth {
                link: link.name.clone(),
                from: before.state.clone(),
                to: link.state.clone(),
            });
        }
    }
    not_bonded(changes, &before.not_bonded, &after.not_bonded);
    vouched(changes, &before.vouched, &after.vouched);
    if let (Some(from), Some(to)) = (&before.gateway, &after.gateway) {
        let since_unix_ms = to.unreachable_since_unix_ms;
        if from.unreachable_since_unix_ms.is_some() != since_unix_ms.is_some() {
            changes.push(Change::Gateway {
                is_up: since_unix_ms.is_none(),
                reason: to.reason.clone().filter(|_| since_unix_ms.is_some()),
                since_unix_ms,
            });
        }
    }
}

fn sessions(changes: &mut Vec<Change>, before: &[SessionStatus], after: &[SessionStatus]) {
    let (old, new) = (begun(before), begun(after));
    let gone = old.keys().filter(|id| !new.contains_key(**id));
    changes.extend(gone.map(|id| Change::SessionEnded {
        session: (*id).to_owned(),
    }));
    for (id, session) in new {
        match old.get(id) {
            None => changes.push(Change::SessionBegan {
                session: id.to_owned(),
                peer: session.peer.clone(),
            }),
            Some(before) => one_session(changes, before, session),
        }
    }
}

/// Returns the sessions that are established far enough to have a name of their own.
fn begun(sessions: &[SessionStatus]) -> BTreeMap<&str, &SessionStatus> {
    let mut all = by(sessions, |it| &it.id);
    all.retain(|_, session| session.state != SessionState::Connecting);
    all
}

fn one_session(changes: &mut Vec<Change>, before: &SessionStatus, after: &SessionStatus) {
    let session = || after.id.clone();
    if before.state != after.state {
        changes.push(Change::SessionState {
            session: session(),
            from: before.state,
            to: after.state,
            reason: after.reason.clone(),
            since_unix_ms: after.since_unix_ms,
        });
    }
    for path in &after.paths {
        let mut old = before.paths.iter();
        let old = old.find(|old| old.id == path.id && old.link == path.link);
        if let Some(old) = old.filter(|old| old.state != path.state) {
            changes.push(Change::PathState {
                session: session(),
                link: path.link.clone(),
                from: old.state,
                to: path.state,
                reason: path.reason.clone().filter(|_| path.state != PathState::Up),
            });
        }
    }
}

fn by<'a, T>(list: &'a [T], name: impl Fn(&'a T) -> &'a str) -> BTreeMap<&'a str, &'a T> {
    list.iter().map(|one| (name(one), one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        GatewayStatus, PathStatus, PlacingStatus, RuleStatus, SignalSource, SignalStatus,
        StandbyStatus,
    };
    use hawser_types::{LinkUse, Radio, SignalState, SignalStrength, StandbyState};

    fn link(name: &str, state: LinkState) -> LinkStatus {
        LinkStatus {
            name: name.to_owned(),
            state,
            reason: Some("a reason".to_owned()),
            ..LinkStatus::default()
        }
    }

    fn with_links(links: &[LinkStatus]) -> StatusSnapshot {
        StatusSnapshot {
            links: links.to_vec(),
            ..StatusSnapshot::default()
        }
    }

    fn session(id: &str, state: SessionState, path: PathState) -> StatusSnapshot {
        let session = SessionStatus {
            id: id.to_owned(),
            peer: "gateway".to_owned(),
            state,
            paths: vec![PathStatus {
                link: "dsl".to_owned(),
                state: path,
                reason: Some("a reason".to_owned()),
                ..PathStatus::default()
            }],
            ..SessionStatus::default()
        };
        StatusSnapshot {
            sessions: vec![session],
            ..StatusSnapshot::default()
        }
    }

    fn placing(health: &str, is_up: bool) -> StatusSnapshot {
        let status = ConnectionsStatus {
            links: vec![PlacingStatus {
                name: "dsl".to_owned(),
                state: health.to_owned(),
                ..PlacingStatus::default()
            }],
            gateway: Some(GatewayStatus {
                unreachable_since_unix_ms: (!is_up).then_some(1000),
                reason: Some("a reason".to_owned()),
                ..GatewayStatus::default()
            }),
            ..ConnectionsStatus::default()
        };
        StatusSnapshot {
            connections: Some(status),
            ..StatusSnapshot::default()
        }
    }

    /// Returns the changes as their JSON, without braces.
    fn told(before: &StatusSnapshot, after: &StatusSnapshot) -> Vec<String> {
        assert_eq!(changes_between(after, after), []);
        let changes = changes_between(before, after);
        let json = changes.iter().map(|it| serde_json::to_string(it).unwrap());
        json.map(|it| it.trim_matches(['{', '}']).replace('"', ""))
            .collect()
    }

    #[test]
    fn links_come_go_and_change() {
        let before = with_links(&[link("dsl", LinkState::Up), link("usb0", LinkState::Up)]);
        let after = with_links(&[link("dsl", LinkState::Down), link("lte", LinkState::Up)]);
        let expected = [
            "event:link-gone,link:usb0",
            "event:link-state,link:dsl,from:up,to:down,reason:a reason",
            "event:link-appeared,link:lte,state:up",
        ];
        assert_eq!(told(&before, &after), expected);
        let up = with_links(&[link("dsl", LinkState::Up)]);
        assert_eq!(
            told(&with_links(&[link("dsl", LinkState::NoInternet)]), &up),
            ["event:link-state,link:dsl,from:no-internet,to:up"]
        );
    }

    #[test]
    fn other_addresses_of_a_link_are_told_and_their_order_is_no_news() {
        let with = |addresses: &[&str]| {
            let mut link = link("dsl", LinkState::Up);
            link.addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
            with_links(&[link])
        };
        let before = with(&["10.1.0.2", "fd00::2"]);
        assert_eq!(
            changes_between(&before, &with(&["fd00::2", "10.1.0.2"])),
            []
        );
        assert_eq!(
            told(&before, &with(&["10.1.0.7", "fd00::2"])),
            ["event:link-addresses,link:dsl,from:[10.1.0.2,fd00::2],to:[10.1.0.7,fd00::2]"]
        );
    }

    #[test]
    fn what_the_user_says_of_a_link_and_its_allowance_is_told() {
        let allowed = |usage, limit: Option<&str>| {
            let mut link = link("dsl", LinkState::Up);
            link.allowed = Some(LinkAllowed {
                up: usage,
                limit: limit.map(str::to_owned),
                ..LinkAllowed::default()
            });
            with_links(&[link])
        };
        let before = with_links(&[link("dsl", LinkState::Up)]);
        // It has carried some bytes, and nothing else changed.
        assert_eq!(
            changes_between(&before, &allowed(LinkUse::Normal, None)),
            []
        );
        let expected = [
            "event:link-use,link:dsl,up:never,down:normal",
            "event:allowance,link:dsl,limit:stopped",
        ];
        let after = allowed(LinkUse::Never, Some("stopped"));
        assert_eq!(told(&before, &after), expected);
        let again = ["event:allowance,link:dsl"];
        assert_eq!(told(&after, &allowed(LinkUse::Never, None)), again);
    }

    #[test]
    fn a_signal_that_fades_is_told_and_its_ups_and_downs_are_not() {
        let with = |signal: Option<(i16, SignalState)>| {
            let mut link = link("wlan0", LinkState::Up);
            link.signal = signal.map(|(dbm, state)| SignalStatus {
                strength: SignalStrength::new(dbm).unwrap(),
                radio: Radio::WiFi,
                state,
                source: SignalSource::Kernel,
                leave_below: SignalStrength::new(-80).unwrap(),
            });
            with_links(&[link])
        };
        let (good, fading) = (SignalState::Good, SignalState::Fading);
        let before = with(Some((-60, good)));
        assert_eq!(changes_between(&with(None), &before), []);
        assert_eq!(changes_between(&before, &with(Some((-70, good)))), []);
        let after = with(Some((-83, fading)));
        assert_eq!(
            told(&before, &after),
            ["event:link-signal,link:wlan0,from:good,to:fading,dbm:-83"]
        );
        assert_eq!(
            told(&after, &with(None)),
            ["event:link-signal,link:wlan0,from:fading,to:good"]
        );
    }

    #[test]
    fn a_link_on_standby_is_told_of_when_it_is_connected_and_when_it_cannot_be() {
        let with = |standby: Option<(StandbyState, Option<&str>)>| {
            let mut link = link("wwan0", LinkState::Down);
            link.standby = standby.map(|(state, reason)| StandbyStatus {
                state,
                reason: reason.map(str::to_owned),
            });
            with_links(&[link])
        };
        let waiting = with(Some((StandbyState::Waiting, None)));
        assert_eq!(
            told(&with(None), &waiting),
            ["event:link-standby,link:wwan0,to:waiting"]
        );
        assert_eq!(changes_between(&waiting, &waiting), []);
        let failed = with(Some((StandbyState::Waiting, Some("no SIM card"))));
        assert_eq!(
            told(&waiting, &failed),
            ["event:link-standby,link:wwan0,from:waiting,to:waiting,reason:no SIM card"]
        );
        assert_eq!(
            told(&failed, &with(Some((StandbyState::Connected, None)))),
            ["event:link-standby,link:wwan0,from:waiting,to:connected"]
        );
    }

    #[test]
    fn links_that_do_not_answer_and_the_gateway_are_told() {
        let expected = [
            "event:link-health,link:dsl,from:sound,to:suspect",
            "event:gateway,is_up:false,reason:a reason,since_unix_ms:1000",
        ];
        let (up, down) = (placing("sound", true), placing("suspect", false));
        assert_eq!(told(&up, &down), expected);
        assert_eq!(told(&down, &up)[1], "event:gateway,is_up:true");
    }

    #[test]
    fn a_name_whose_connections_are_refused_is_told_and_that_they_are_no_more() {
        let status = |refused: Option<&str>| ConnectionsStatus {
            vouched: vec![VouchedStatus {
                name: "example.org".to_owned(),
                ports: vec![443],
                left: Some(std::time::Duration::from_secs(1)),
                is_bonded: refused.is_none(),
                refused: refused.map(str::to_owned),
                stale: None,
            }],
            ..ConnectionsStatus::default()
        };
        let told = |before, after| {
            let mut changes = Vec::new();
            connections(&mut changes, &status(before), &status(after));
            changes
        };
        let is = |refused: Option<&str>| {
            vec![Change::Vouched {
                name: "example.org".to_owned(),
                refused: refused.map(str::to_owned),
            }]
        };
        assert_eq!(told(None, Some("another key")), is(Some("another key")));
        assert_eq!(told(Some("another key"), None), is(None));
        assert_eq!(told(Some("another key"), Some("another key")), []);
        let mut first = Vec::new();
        let before = ConnectionsStatus::default();
        connections(&mut first, &before, &status(Some("no voucher")));
        assert_eq!(first, is(Some("no voucher")));
    }

    #[test]
    fn servers_that_are_not_bonded_with_any_more_are_told() {
        let with = |reasons: &[&str]| StatusSnapshot {
            connections: Some(ConnectionsStatus {
                not_bonded: reasons
                    .iter()
                    .map(|reason| NotBondedStatus {
                        server: "192.0.2.1:443".parse().unwrap(),
                        reason: (*reason).to_owned(),
                    })
                    .collect(),
                ..ConnectionsStatus::default()
            }),
            ..StatusSnapshot::default()
        };
        let event = "event:not-bonded,server:192.0.2.1:443";
        let (well, amiss, worse) = (with(&[]), with(&["another key"]), with(&["no key"]));
        assert_eq!(told(&well, &amiss), [format!("{event},reason:another key")]);
        assert_eq!(changes_between(&amiss, &amiss), []);
        assert_eq!(told(&amiss, &worse), [format!("{event},reason:no key")]);
        assert_eq!(told(&worse, &well), [event]);
    }

    #[test]
    fn sessions_are_told_of_once_they_have_a_name() {
        let connecting = session("-", SessionState::Connecting, PathState::Connecting);
        let begun = session("1a", SessionState::Established, PathState::Up);
        let cut = session("1a", SessionState::Interrupted, PathState::Dead);
        assert_eq!(
            told(&connecting, &begun),
            ["event:session-began,session:1a,peer:gateway"]
        );
        let expected = [
            "event:session-state,session:1a,from:established,to:interrupted",
            "event:path-state,session:1a,link:dsl,from:up,to:dead,reason:a reason",
        ];
        assert_eq!(told(&begun, &cut), expected);
        assert_eq!(told(&cut, &connecting), ["event:session-ended,session:1a"]);
        let another = session("2b", SessionState::Established, PathState::Up);
        let expected = [
            "event:session-ended,session:1a",
            "event:session-began,session:2b,peer:gateway",
        ];
        assert_eq!(told(&begun, &another), expected);
    }

    #[test]
    fn another_policy_and_other_rules_are_told() {
        let policy = |sessions: &str, rules: &[&str]| PolicyStatus {
            sessions: sessions.to_owned(),
            connections: Some("auto".to_owned()),
            profile: Some("office".to_owned()),
            rules: rules
                .iter()
                .map(|source| RuleStatus {
                    source: (*source).to_owned(),
                    ..RuleStatus::default()
                })
                .collect(),
            ..PolicyStatus::default()
        };
        let before = policy("auto", &["profile"]);
        assert_eq!(policy_changes(&before, &before), []);
        let after = policy("backlog", &["session", "user", "profile"]);
        let expected = [
            Change::Scheduler {
                of: Scheduled::Sessions,
                from: "auto".to_owned(),
                to: "backlog".to_owned(),
            },
            Change::Rules {
                count: 2,
                profile: "office".to_owned(),
            },
        ];
        assert_eq!(policy_changes(&before, &after), expected);
    }
}
