//! The greeting of `hawser up` on a terminal once its port is open: the links, the port, a command
//! to try. Without a terminal, the log contains this information.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_config::CaptureScope;
use hawser_link::links::usable;
use hawser_net::client::Client;

use crate::proxy::links::Links;

/// The facts in a greeting.
pub(super) struct Greeting {
    pub(super) links: Links,
    /// Links that the user has named; empty for all.
    pub(super) wanted: Vec<String>,
    pub(super) gateway: Option<Arc<Client>>,
    /// Programs whose connections are captured.
    pub(super) programs: Option<CaptureScope>,
    pub(super) listen: SocketAddr,
    pub(super) has_password: bool,
}

impl Greeting {
    /// Prints the greeting on standard error once all links have joined, or one is late.
    pub(super) async fn say(self) {
        let _ = tokio::time::timeout(PATIENCE, self.all_joined()).await;
        // The terminal may have been closed.
        let _ = std::io::stderr().write_all(self.text().as_bytes());
    }

    async fn all_joined(&self) {
        let mut tick = tokio::time::interval(LOOK);
        while self.gateway.is_some() && self.used().iter().any(|(_, problem)| problem.is_some()) {
            tick.tick().await;
        }
    }

    /// Returns the links in use, each with the reason why it has not reached the gateway yet.
    fn used(&self) -> Vec<(String, Option<String>)> {
        let Some(gateway) = &self.gateway else {
            let links = self.links.borrow();
            let links = usable(&links, &self.wanted).into_iter();
            return links.map(|link| (link.name.clone(), None)).collect();
        };
        let links = gateway.snapshot(0).links.into_iter();
        let described = links.map(|it| {
            let waits = it.remote.is_none().then(|| NO_ANSWER.to_owned());
            (it.link.name, it.problem.or(waits))
        });
        described.collect()
    }

    fn text(&self) -> String {
        let links = links_line(&self.used(), self.gateway.is_some());
        let port = match &self.programs {
            Some(CaptureScope::System) => "the connections of all programs are captured; proxy",
            Some(_) => "the connections of programs are captured; proxy",
            None => "proxy port",
        };
        let command = match &self.programs {
            Some(CaptureScope::System) => "curl https://example.org/".to_owned(),
            _ => {
                let user = if self.has_password {
                    "USER:PASSWORD@"
                } else {
                    ""
                };
                let near = near(self.listen);
                format!("curl -x socks5h://{user}{near} https://example.org/")
            }
        };
        format!(
            "hawser: {links}\nhawser: {port}: {} (SOCKS5 and HTTP)\nhawser: try `{command}`, then \
             `hawser streams` in another terminal; Ctrl-C stops\n",
            self.listen
        )
    }
}

fn links_line(links: &[(String, Option<String>)], has_gateway: bool) -> String {
    let names = |are_joined: bool| {
        let its = links
            .iter()
            .filter(|(_, problem)| problem.is_none() == are_joined);
        its.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let joined = names(true);
    let late = links
        .iter()
        .find_map(|(name, problem)| Some((name, problem.as_ref()?)));
    let late = late.map(|(name, problem)| match names(false).len() {
        1 => format!("{name}: {problem}"),
        others => format!("{name}: {problem}, and {} more", others - 1),
    });
    match (has_gateway, joined.is_empty(), late) {
        (_, true, None) => {
            "no link reaches the internet yet; the first one that does is used at once".into()
        }
        (true, true, Some(late)) => format!("no link has reached the gateway yet ({late})"),
        (true, false, None) => format!("joined to the gateway over {}", listed(&joined)),
        (true, false, Some(late)) => {
            let joined = listed(&joined);
            format!("joined to the gateway over {joined}; not yet over {late}")
        }
        (false, _, _) => format!(
            "using {}, one link for each connection; with a gateway, a connection uses all",
            listed(&joined)
        ),
    }
}

/// Formats names as "dsl", "dsl and lte", or "dsl, lte and wifi".
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Returns the address at which programs of this machine reach the port.
fn near(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Longest wait for links that have not joined yet.
const PATIENCE: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(50);
const NO_ANSWER: &str = "no answer so far";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(links: &[(&str, Option<&str>)], has_gateway: bool) -> String {
        let links: Vec<_> = links
            .iter()
            .map(|(name, problem)| ((*name).to_owned(), problem.map(str::to_owned)))
            .collect();
        links_line(&links, has_gateway)
    }

    #[test]
    fn links_are_named_and_late_ones_say_why() {
        let (dsl, lte, wifi) = (("dsl", None), ("lte", Some("timed out")), ("wifi", None));
        assert_eq!(
            line(&[dsl, wifi], true),
            "joined to the gateway over dsl and wifi"
        );
        assert_eq!(
            line(&[dsl, lte, wifi], true),
            "joined to the gateway over dsl and wifi; not yet over lte: timed out"
        );
        assert_eq!(
            line(&[lte, ("sat", Some("no route"))], true),
            "no link has reached the gateway yet (lte: timed out, and 1 more)"
        );
        assert_eq!(
            line(&[dsl, ("lte", None), wifi], false),
            "using dsl, lte and wifi, one link for each connection; with a gateway, a connection uses \
             all"
        );
        assert!(line(&[], true).starts_with("no link reaches"));
        assert!(line(&[], false).starts_with("no link reaches"));
    }

    #[test]
    fn a_port_at_all_addresses_is_tried_by_loopback() {
        let near = |listen: &str| near(listen.parse().unwrap()).to_string();
        assert_eq!(near("0.0.0.0:1080"), "127.0.0.1:1080");
        assert_eq!(near("[::]:1080"), "[::1]:1080");
        assert_eq!(near("192.0.2.1:1080"), "192.0.2.1:1080");
    }
}
