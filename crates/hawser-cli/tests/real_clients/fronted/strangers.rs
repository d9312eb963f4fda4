//! Hosts that speak TCP by hand at fronted ports: a flood of SYNs, and joins to foreign sessions.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hawser_skip::namespace::within;
use hawser_skip::wire::{ByHand, Flag, Segment, Wire};
use hawser_types::{ChannelId, SessionId};
use hawser_wire::{JOIN_PRELUDE_LENGTH, JoinPrelude, Offer, OfferForm, SynOption};

use super::super::clients::{is_without, noise, run};
use super::super::network::{Namespace, SERVER};
use super::super::program::{Daemon, read, until};
use super::bonds::bonding;
use super::{FILE, PLAIN, Stage};

#[test]
fn a_flood_of_syns_that_want_a_bond_keeps_no_client_from_the_service() {
    let test = "a_flood_of_syns_that_want_a_bond_keeps_no_client_from_the_service";
    if is_without(&["ss"], test) {
        return;
    }
    let Some(stage) = bonding(test) else {
        return;
    };
    let server = stage.serve();
    let content = noise(1, FILE / 8);
    stage.nginx.put("file", &content);
    stage.at_server("echo 1 > /proc/sys/net/ipv4/tcp_synack_retries");
    answers_to_strangers(&stage, "10.7.1.2");
    // What the first session has it allocate is not the flood's.
    let up = stage.up(&[]);
    assert!(stage.download(&up, PLAIN, "file").out() == content);
    up.end();
    stage.forget_servers();
    let before = memory(&server);

    let (ends, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ended = EndedAtLast(&ends);
        let flood = || flood(&stage.network.client, &ends, &sent);
        let flood = scope.spawn(flood);
        let looks = || {
            let is_full = stage.cookies_sent() > 0;
            is_full && stage.server_count("front-handshakes-diverted") > REMEMBERED
        };
        let said = || {
            let sent = sent.load(Ordering::Relaxed);
            let (cookies, waiting) = (stage.cookies_sent(), stage.half_open());
            let diverted = stage.server_count("front-handshakes-diverted");
            let log = server.log();
            format!("{sent} sent, {diverted} diverted, {cookies} cookies, {waiting} wait: {log}")
        };
        until("the queue and the table are full", looks, said);
        let waiting = stage.half_open();
        assert!(waiting <= QUEUE + QUEUE / 8, "{waiting} wait");
        // One that knows nothing of Hawser, and one that asks for a bond.
        assert!(stage.fetch(PLAIN, "file").out() == content);
        let up = stage.up(&[]);
        assert!(stage.download(&up, PLAIN, "file").out() == content);
        up.end();
        let grown = memory(&server).saturating_sub(before);
        assert!(grown < MOST_GROWN, "{grown} KiB more than {before}");
        assert!(!flood.is_finished());
    });

    until("no SYN waits", || stage.half_open() == 0, || server.log());
    stage.forget_servers();
    let (connected, passed_on) = stage.counts();
    let up = stage.up(&[]);
    assert!(stage.download(&up, PLAIN, "file").out() == content);
    let counts = stage.counts();
    assert_eq!(counts, (connected + 1, passed_on), "{}", server.log());
    up.end();
    server.end();
}

#[test]
fn an_overheard_or_guessed_id_lets_no_host_into_a_session() {
    let test = "an_overheard_or_guessed_id_lets_no_host_into_a_session";
    let Some(stage) = bonding(test) else {
        return;
    };
    let intruder = neighbour(&stage);
    let server = stage.serve();
    let content = noise(1, FILE);
    stage.nginx.put("file", &content);
    stage.nginx.put("little", b"x");
    let wire = within(stage.network.client.process(), || Wire::new().unwrap());
    let up = stage.up(&[]);
    // The first connection to the service begins the session.
    assert_eq!(stage.download(&up, PLAIN, "little").out(), b"x");
    let both = || stage.paths() == [2];
    until("the session has both links", both, || up.log());
    let heard = Overheard::of(&wire);
    drop(wire);
    let (sessions, refused) = ("front-door-sessions", "front-door-joins-refused");
    assert_eq!(
        (stage.server_count(sessions), stage.server_count(refused)),
        (1, 0)
    );

    std::thread::scope(|scope| {
        let downloading = scope.spawn(|| download_slowly(&stage, &up));
        let hand = within(intruder.process(), || ByHand::new().unwrap());
        let said = heard.attacks();
        let mut port = 10_000;
        let mut attack = |to: u16, options: &[u8], said: &[u8]| {
            port += 1;
            let from = SocketAddr::new(stranger(0), port);
            let to = SocketAddr::new(SERVER.parse().unwrap(), to);
            let mut connection = hand.connect(from, to, options);
            let answer = SynOption::find(&connection.answer.options).unwrap();
            connection.say(said);
            (answer.is_some_and(|it| it.bond), connection.hear())
        };
        let mut may_be_refused = 0;
        for said in &said {
            // At the port for strangers.
            assert_eq!(attack(745, &[], said), (false, Vec::new()));
            // On the service's own port, with the number of the session's first connection.
            let (has_bond, answer) = attack(PLAIN, &heard.option, said);
            assert!(has_bond);
            assert_eq!(answer, b"");
            // Without the option it is the service's, whatever it says.
            let (has_bond, answer) = attack(PLAIN, &[], said);
            assert!(!has_bond && answer.starts_with(REFUSES), "{answer:?}");
            may_be_refused += 2;
        }
        let counted = || stage.server_count(refused) == may_be_refused;
        until("all are refused", counted, || server.log());
        assert!(downloading.join().unwrap() == content);
    });
    assert_eq!(stage.server_count(sessions), 1, "{}", server.log());
    assert_eq!(stage.paths(), [2]);
    up.end();
    server.end();
}

/// What an eavesdropper on the first or the second link knows of a session.
struct Overheard {
    /// The option of the SYN of its first connection.
    option: Vec<u8>,
    /// Bytes with which one channel joined it.
    join: Vec<u8>,
}

impl Overheard {
    fn of(wire: &Wire) -> Self {
        // Both ports at once: what has passed is read once.
        let all = wire.segments_of(&[PLAIN, 745]);
        let mut options = all.iter().filter(|it| it.to.port() == PLAIN);
        let option = options.find_map(Segment::option).unwrap().to_vec();
        let mut joins = all.iter().filter(|it| it.payload.starts_with(b"HWJ1"));
        let join = joins.next().unwrap().payload.clone();
        assert!(join.len() > JOIN_PRELUDE_LENGTH, "{join:02x?}");
        Self { option, join }
    }

    /// Returns an intruder's messages, with the session's id and with guessed ones.
    fn attacks(&self) -> Vec<Vec<u8>> {
        let (prelude, record) = self.join.split_first_chunk().unwrap();
        let prelude = JoinPrelude::decode(prelude).unwrap();
        let saying = |session, channel, record: &[u8]| {
            let channel = ChannelId::new(channel);
            [&JoinPrelude { session, channel }.encode()[..], record].concat()
        };
        let guessed = |near: bool| {
            let mut id = *prelude.session.as_bytes();
            if near {
                id[15] ^= 1;
            } else {
                id = [7; 16];
            }
            SessionId::new(id)
        };
        let mut altered = record.to_vec();
        *altered.last_mut().unwrap() ^= 1;
        let taken = prelude.channel.value();
        let mut attacks = vec![self.join.clone()];
        // Numbers that are taken, that may be granted, and that are not.
        for channel in [taken, taken + 1, taken + 5, 0, u32::MAX] {
            attacks.push(saying(prelude.session, channel, &altered));
        }
        attacks.push(saying(prelude.session, taken + 6, record));
        for near in [true, false] {
            attacks.push(saying(guessed(near), taken + 1, record));
        }
        attacks
    }
}

fn download_slowly(stage: &Stage, up: &Daemon) -> Vec<u8> {
    let proxy = format!("socks5://{}", up.listen(&stage.place).unwrap());
    let mut curl = stage.network.client.command("curl");
    curl.args(["--silent", "--show-error", "--fail", "--proxy", &proxy]);
    curl.args(["--limit-rate", "2M"]);
    curl.arg(format!("http://{SERVER}:{PLAIN}/file"));
    run(&stage.place, &mut curl).out()
}

/// Another host beside the client, whose packets the server answers.
fn neighbour(stage: &Stage) -> Namespace {
    let host = Namespace::new().unwrap();
    let (server, far) = (&stage.network.server, stage.network.server.process());
    host.ip(&format!(
        "link add up3 type veth peer name far3 netns {far}"
    ));
    for (end, name, address) in [(&host, "up3", "10.7.3.2"), (server, "far3", "10.7.3.1")] {
        end.ip(&format!("address add {address}/24 dev {name}"));
        end.ip(&format!("link set {name} up"));
    }
    host.ip("route add default via 10.7.3.1");
    answers_to_strangers(stage, "10.7.3.2");
    host
}

/// Gives the server a route for [`stranger`]s, which have no kernel that would reset unknown
/// connections.
fn answers_to_strangers(stage: &Stage, by: &str) {
    let route = format!("route add 198.18.0.0/15 via {by}");
    stage.network.server.ip(&route);
}

/// An address for benchmarks (RFC 2544).
fn stranger(number: u32) -> IpAddr {
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 1));
    Ipv4Addr::from(first + number % (1 << 17)).into()
}

/// Ends a flood, even if the test fails.
struct EndedAtLast<'a>(&'a AtomicBool);

impl Drop for EndedAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends SYNs that want a bond, each from another address, until told to end.
fn flood(from: &Namespace, ends: &AtomicBool, sent: &AtomicU64) {
    let hand = within(from.process(), || ByHand::new().unwrap());
    let option = SynOption {
        offer: Offer {
            form: OfferForm::Binary,
            version: SynOption::VERSION,
            interfaces: 2,
            key_hint: None,
        },
        bond: true,
        connection: 7,
    };
    let options = option.encode().unwrap().as_ref().to_vec();
    let to = SocketAddr::new(SERVER.parse().unwrap(), PLAIN);
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let from = SocketAddr::new(stranger(number), 5000);
            hand.send(&Segment {
                sequence: number,
                options: options.clone(),
                ..Segment::new(from, to, &[Flag::Syn])
            });
            number += 1;
        }
        sent.store(number.into(), Ordering::Relaxed);
        // The machine has other work, too.
        std::thread::sleep(PAUSE);
    }
}

impl Stage {
    /// Makes the client forget all servers at its next start.
    fn forget_servers(&self) {
        let _ = std::fs::remove_file(self.place.path("client/servers.json"));
    }

    /// Runs a script at the server.
    fn at_server(&self, script: &str) {
        let mut sh = self.network.server.command("sh");
        assert!(sh.args(["-c", script]).status().unwrap().success());
    }

    /// Connections to the service's port whose handshake is not over.
    fn half_open(&self) -> usize {
        let mut ss = self.network.server.command("ss");
        let filter = format!("sport = :{PLAIN}");
        let output = ss.args(["-Htn", "state", "syn-recv", &filter]).output();
        String::from_utf8(output.unwrap().stdout)
            .unwrap()
            .lines()
            .count()
    }

    /// SYN cookies that the server has sent.
    fn cookies_sent(&self) -> u64 {
        let mut cat = self.network.server.command("cat");
        let output = cat.arg("/proc/net/netstat").output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        let mut rows = table.lines().filter(|it| it.starts_with("TcpExt:"));
        let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
        let mut both = names.split(' ').zip(values.split(' '));
        let found = both.find(|(name, _)| *name == "SyncookiesSent");
        found.unwrap().1.parse().unwrap()
    }
}

/// Returns the memory of a daemon in KiB, without file contents.
fn memory(daemon: &Daemon) -> u64 {
    let status = format!("/proc/{}/status", daemon.process());
    let status = read(status.as_ref());
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    let number = line.and_then(|it| it.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

/// The web server's answer to bytes that are no request.
const REFUSES: &[u8] = b"HTTP/1.1 400 ";
const BURST: usize = 500;
const PAUSE: Duration = Duration::from_millis(20);
/// Length of the queue of Hawser's listener.
const QUEUE: usize = 1024;
/// SYNs that the kernel's table has room for.
const REMEMBERED: u64 = 16_384;
/// In KiB. The flood's packets, and the answers to them, would be far more.
const MOST_GROWN: u64 = 16 << 10;
