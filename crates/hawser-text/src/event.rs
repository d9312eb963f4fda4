//! `hawser events`.

use std::net::{IpAddr, SocketAddr};

use crate::figures::clock;
use crate::table::printable;
use hawser_control::{Change, Scheduled, StandbyStatus};
use hawser_types::{LinkUse, SignalState};

// long: one arm for each kind of change.
/// Returns a change in words, on one line.
pub fn render_change(change: &Change) -> String {
    let text = match change {
        Change::LinkAppeared { link, state } => format!("{link} has come: {state}"),
        Change::LinkGone { link } => format!("{link} is gone"),
        Change::LinkState {
            link,
            from,
            to,
            reason,
            since_unix_ms,
        } => {
            let since = since(*since_unix_ms);
            format!("{link} is {to}{since}, was {from}{}", because(reason))
        }
        Change::LinkAddresses { link, from, to } => {
            format!("{link} has {}, had {}", addresses(to), addresses(from))
        }
        Change::LinkHealth { link, to, .. } => match to.as_str() {
            "sound" => format!("{link} answers again"),
            "suspect" => format!("{link} does not answer where others do"),
            "portal" => format!("another host on {link} answers in the name of destinations"),
            other => format!("{link} is {other}"),
        },
        Change::LinkSignal {
            link, to, strength, ..
        } => {
            let strength = strength.map_or_else(String::new, |it| format!(" ({it})"));
            match to {
                SignalState::Good => format!("the signal of {link} is good{strength}"),
                to => format!("the signal of {link} is {to}{strength}: traffic leaves it"),
            }
        }
        Change::LinkStandby {
            link, to, reason, ..
        } => {
            let (state, reason) = (*to, reason.clone());
            format!("{link} is {}", StandbyStatus { state, reason })
        }
        Change::LinkUse { link, up, down } => format!("{link} is used: {}", usage(*up, *down)),
        Change::Allowance { link, limit } => match limit {
            Some(limit) => format!("the allowance of {link} is used up: {limit}"),
            None => format!("{link} has some of its allowance again"),
        },
        Change::SessionBegan { session, peer } => format!("session {session} with {peer} begins"),
        Change::SessionState {
            session,
            from,
            to,
            reason,
            since_unix_ms,
        } => {
            let (since, why) = (since(*since_unix_ms), because(reason));
            format!("session {session} is {to}{since}, was {from}{why}")
        }
        Change::SessionEnded { session } => format!("session {session} is over"),
        Change::PathState {
            session,
            link,
            from,
            to,
            reason,
        } => {
            let why = because(reason);
            format!("{link} is {to} for session {session}, was {from}{why}")
        }
        Change::Scheduler { of, from, to } => {
            let of = match of {
                Scheduled::Sessions => "sessions",
                Scheduled::Connections => "connections",
                Scheduled::Packets => "packets",
            };
            format!("{to} chooses links for {of}, no more {from}")
        }
        Change::Gateway { is_up: true, .. } => "the gateway can be reached again".to_owned(),
        Change::Gateway {
            reason,
            since_unix_ms,
            ..
        } => {
            let (since, why) = (since(*since_unix_ms), because(reason));
            format!("the gateway can't be reached{since}{why}")
        }
        Change::NotBonded { server, reason } => not_bonded(*server, reason.as_deref()),
        Change::Vouched { name, refused } => vouched(name, refused.as_deref()),
        Change::Registration {
            name,
            is_registered,
            reason,
        } => {
            let not = if *is_registered { "" } else { "not " };
            format!(
                "{name} is {not}registered with its directory{}",
                because(reason)
            )
        }
        Change::Rules { count, profile } => {
            format!("rules have changed: {count} of one's own, profile {profile}")
        }
        Change::Missed { count } => format!("{count} events before this are forgotten"),
    };
    printable(&text)
}

fn not_bonded(server: SocketAddr, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("not bonded with {server}: {reason}"),
        None => format!("nothing is amiss with {server} any more"),
    }
}

fn vouched(name: &str, refused: Option<&str>) -> String {
    match refused {
        Some(reason) => format!("a connection to {name} is refused: {reason}"),
        None => format!("connections to {name} are refused no more"),
    }
}

fn since(unix_ms: Option<u64>) -> String {
    unix_ms.map_or_else(String::new, |at| format!(" since {}", clock(at)))
}

fn because(reason: &Option<String>) -> String {
    let reason = reason.as_ref();
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

fn addresses(all: &[IpAddr]) -> String {
    let words: Vec<_> = all.iter().map(ToString::to_string).collect();
    if words.is_empty() {
        "no address".to_owned()
    } else {
        words.join(", ")
    }
}

fn usage(up: LinkUse, down: LinkUse) -> String {
    if up == down {
        up.to_string()
    } else {
        format!("{up} to send, {down} to receive")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_control::LinkState;

    #[test]
    fn an_event_is_one_line_whatever_names_hold() {
        let change = Change::LinkState {
            link: "wwan0\u{1b}[2J\n".to_owned(),
            from: LinkState::Up,
            to: LinkState::Down,
            reason: Some("it has no carrier".to_owned()),
            since_unix_ms: Some(1500),
        };
        let line = "wwan0?[2J? is down since 00:00:01.5 UTC, was up: it has no carrier";
        assert_eq!(render_change(&change), line);
        let change = Change::LinkAddresses {
            link: "wwan0".to_owned(),
            from: vec!["10.1.0.2".parse().unwrap()],
            to: Vec::new(),
        };
        assert_eq!(render_change(&change), "wwan0 has no address, had 10.1.0.2");
        let change = Change::LinkUse {
            link: "wwan0".to_owned(),
            up: LinkUse::Never,
            down: LinkUse::Normal,
        };
        let line = "wwan0 is used: never to send, normal to receive";
        assert_eq!(render_change(&change), line);
    }
}
