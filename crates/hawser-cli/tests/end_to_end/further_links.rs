//! A gateway on two networks, of which its client reaches only one.

use hawser_skip::namespace::{Neighbour, in_namespace, ip, within};

use super::connections::{add_link, serve_there};
use super::origin::{self, fetch, page};
use super::program::{Daemon, Place, read, until};

/// The client names a port, the gateway connects to it on its further link, and a good part of a
/// download takes that link. When the link is lost and returns, so does its channel.
#[test]
fn a_gateway_adds_a_link_that_its_client_does_not_reach() {
    let name = "further_links::a_gateway_adds_a_link_that_its_client_does_not_reach";
    in_namespace(name, || {
        let Some(net) = Net::start(name) else { return };
        let gateway = net.gateway(&["--further-link", "lte"]);
        let up = net.client(&["--accept-joins", PORT]);
        let log = || up.log() + &gateway.log();
        let joined = || up.log().matches("joined the gateway's connection").count();
        until("a channel of the gateway's", || joined() > 0, log);
        until_shared(&net, &up, &gateway);

        net.host.ip("link set lte down");
        until("the channel is closed", || net.begun() == 0, log);
        assert_eq!(download(&net, &up, &gateway), 0.0, "{}", log());
        let before = joined();
        net.host.ip("link set lte up");
        net.host.ip(BY_LTE);
        until("a channel once more", || joined() > before, log);
        until_shared(&net, &up, &gateway);
        up.end();
        gateway.end();
    });
}

#[test]
fn nothing_is_opened_unless_both_ends_are_told_to() {
    let name = "further_links::nothing_is_opened_unless_both_ends_are_told_to";
    in_namespace(name, || {
        let Some(net) = Net::start(name) else { return };
        for (of_gateway, of_client) in [
            (&["--further-link", "lte"][..], &[][..]),
            (&[][..], &["--accept-joins", PORT][..]),
        ] {
            let gateway = net.gateway(of_gateway);
            let up = net.client(of_client);
            let log = || up.log() + &gateway.log();
            assert_eq!(download(&net, &up, &gateway), 0.0, "{}", log());
            assert_eq!(net.begun(), 0, "{}", log());
            let has_port = sockets().contains(&format!(":{PORT_IN_HEX} "));
            assert_eq!(has_port, !of_client.is_empty(), "{}", sockets());
            up.end();
            gateway.end();
        }
    });
}

#[test]
fn a_port_that_another_program_has_is_told() {
    let name = "further_links::a_port_that_another_program_has_is_told";
    in_namespace(name, || {
        let Some(net) = Net::start(name) else { return };
        let gateway = net.gateway(&[]);
        let _other = std::net::TcpListener::bind(format!("0.0.0.0:{PORT}")).unwrap();
        let invite = net.place.invite();
        let flags = ["up", "--gateway", &invite, "--accept-joins", PORT];
        let ended = net.place.run("client", &flags);
        ended.expect(1, &format!("can't accept joins at port {PORT}"));
        gateway.end();
    });
}

/// Downloads pages until a good part of one has left the gateway by its further link: chunks of a
/// new channel are small at first, and on a busy machine a channel may be left out for a while.
fn until_shared(net: &Net, up: &Daemon, gateway: &Daemon) {
    let mut shares = Vec::new();
    let is_shared = || {
        shares.push(download(net, up, gateway));
        shares.last() > Some(&0.2)
    };
    until("much goes by the further link", is_shared, || {
        up.log() + &gateway.log()
    });
    println!("shares of the further link: {shares:?}");
}

/// Downloads a page; returns the share of it that left the gateway by its further link.
fn download(net: &Net, up: &Daemon, gateway: &Daemon) -> f64 {
    let set = net
        .place
        .run("client", &["policy", "set", "--scheduler", "round-robin"]);
    assert_eq!(set.code, 0, "{set:?}");
    let before = net.sent("lte");
    let proxy = format!("socks5h://{}", up.listen(&net.place).unwrap());
    let got = fetch(&proxy, format!("{ORIGIN}:80").parse().unwrap(), SIZE);
    let log = || up.log() + &gateway.log();
    assert!(got.unwrap() == page(SIZE), "{}", log());
    // Less than one packet of payload: neighbours are looked for.
    let sent = Some(net.sent("lte") - before).filter(|sent| *sent > 1000);
    sent.unwrap_or(0) as f64 / SIZE as f64
}

/// A client, a router, and a gateway's host on two networks behind the router.
pub(crate) struct Net {
    pub(crate) place: Place,
    _router: Neighbour,
    pub(crate) host: Neighbour,
}

impl Net {
    /// `None` where the test can't run.
    pub(crate) fn start(name: &str) -> Option<Self> {
        if origin::is_without_curl(name) {
            return None;
        }
        let (router, host) = (Neighbour::start(), Neighbour::start());
        ip("link set lo up");
        router.ip("link set lo up");
        host.ip("link set lo up");
        add_link(&router, 1, "home");
        for (net, link) in [(8, "dsl"), (9, "lte")] {
            ip(&format!("link add to-{link} type veth peer name {link}"));
            router.take(&format!("to-{link}"));
            host.take(link);
            router.ip(&format!("address add 10.{net}.0.1/24 dev to-{link}"));
            router.ip(&format!("link set to-{link} up"));
            host.ip(&format!("address add 10.{net}.0.2/24 dev {link}"));
            host.ip(&format!("link set {link} up"));
        }
        host.ip("route add default via 10.8.0.1 dev dsl metric 100");
        host.ip(BY_LTE);
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let forward = router.command("sh").args(["-c", forward]).status();
        assert!(forward.unwrap().success());
        if let Err(reason) = close(&host) {
            hawser_skip::skip(&format!("end_to_end::{name}"), &reason);
            return None;
        }
        host.ip(&format!("address add {ORIGIN}/32 dev lo"));
        serve_there(&host, async |ready| {
            origin::start_at(&format!("{ORIGIN}:80"));
            ready.send(()).unwrap();
        });
        Some(Self {
            place: Place::new(),
            _router: router,
            host,
        })
    }

    pub(crate) fn gateway(&self, more: &[&str]) -> Daemon {
        let (place, invite) = (&self.place, self.place.path("invite"));
        let mut serve = self.host.command(env!("CARGO_BIN_EXE_hawser"));
        serve.arg("--state").arg(place.path("gateway"));
        serve.args(["serve", "--listen", "0.0.0.0:7443", "--advertise", DSL]);
        serve.args(["--allow-destination", &format!("{ORIGIN}/32")]);
        serve.arg("--invite-file").arg(&invite).args(more);
        let gateway = place.launch_command("gateway", serve);
        until("an invite is written", || invite.exists(), || gateway.log());
        gateway
    }

    pub(crate) fn client(&self, more: &[&str]) -> Daemon {
        let invite = self.place.invite();
        let config = self.place.path("client.toml");
        // Chunks take turns with one channel, not with as many as the link may have.
        std::fs::write(&config, "[session]\nchannels-per-link = 1\n").unwrap();
        let mut up = self.place.hawser("client", &["--config"]);
        up.arg(&config);
        up.args(["up", "--listen", "127.0.0.1:0", "--transport", "tcp"]);
        up.args(["--gateway", &invite]).args(more);
        let up = self.place.launch_command("client", up);
        let listens = || up.listen(&self.place).is_some();
        until("the client listens", listens, || up.log());
        up
    }

    /// Returns the established connections from the gateway's address on its second network.
    fn begun(&self) -> usize {
        let all = within(self.host.process(), sockets);
        let sockets = all.lines().map(|line| line.split_whitespace());
        let standing = sockets.filter(|fields| {
            let mut fields = fields.clone().skip(1);
            let local = fields.next().is_some_and(|it| it.starts_with(LTE_IN_HEX));
            local && fields.nth(1) == Some("01")
        });
        standing.count()
    }

    /// Bytes that have left the gateway by an interface.
    fn sent(&self, link: &str) -> u64 {
        let count = || {
            let all = read("/proc/thread-self/net/dev".as_ref());
            let mut lines = all.lines().filter_map(|line| line.split_once(':'));
            let (_, counters) = lines.find(|(name, _)| name.trim() == link).unwrap();
            let sent = counters.split_whitespace().nth(8);
            sent.unwrap().parse().unwrap()
        };
        within(self.host.process(), count)
    }
}

/// Makes a firewall drop new connections to the gateway on its second network.
fn close(host: &Neighbour) -> Result<(), String> {
    let loaded = host.nft(RULES);
    loaded.map_err(|says| format!("no firewall here: {says}"))
}

/// The TCP sockets of this namespace, as the kernel lists them.
fn sockets() -> String {
    ["tcp", "tcp6"]
        .map(|table| read(format!("/proc/thread-self/net/{table}").as_ref()))
        .concat()
}

const DSL: &str = "10.8.0.2";
pub(crate) const BY_LTE: &str = "route add default via 10.9.0.1 dev lte metric 200";
/// An address as on the internet.
pub(crate) const ORIGIN: &str = "11.22.33.53";
/// 10.9.0.2 as the kernel lists it.
const LTE_IN_HEX: &str = "0200090A:";
pub(crate) const PORT: &str = "7450";
const PORT_IN_HEX: &str = "1D1A";
const SIZE: usize = 5_000_000;
const RULES: &[u8] = b"table ip filter {
    chain in {
        type filter hook input priority 0;
        iifname \"lte\" tcp flags & (syn | ack) == syn drop
    }
}
";
