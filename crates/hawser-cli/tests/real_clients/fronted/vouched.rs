//! A server whose owner vouches for its key, and attackers on the path to it.

mod captured;

use std::process::Command;

use serde_json::Value;

use super::super::clients::{Done, is_without, noise, run};
use super::super::network::SERVER;
use super::super::program::{Daemon, until};
use super::{FILE, OTHER, PLAIN, Stage};

#[test]
fn a_server_that_is_vouched_for_bonds_from_the_first_connection_whatever_handshakes_say() {
    let test =
        "a_server_that_is_vouched_for_bonds_from_the_first_connection_whatever_handshakes_say";
    let Some(stage) = vouched(test) else {
        return;
    };
    let server = stage.serve();
    stage.vouch(&[]);
    let content = noise(1, FILE);
    stage.nginx.put("file", &content);
    // Without it no SYN says anything, and with it what they say is taken out.
    for (arguments, attack) in [(&[][..], None), (&["--discover"], Some(STRIPS))] {
        if attack.is_some_and(|rules| !stage.attacks(rules, test)) {
            return;
        }
        let up = stage.up_vouched(arguments);
        let before = stage.front("connected");
        assert!(stage.get(&up, PLAIN, "file").out() == content);
        assert_eq!(stage.front("connected"), before + 1, "{}", up.log());
        stage.until_over_both_links(&up, || {
            assert!(stage.get(&up, PLAIN, "file").out() == content);
        });
        let shown = stage.shown();
        assert_eq!(
            (&shown["name"], &shown["is_bonded"]),
            (&NAME.into(), &true.into())
        );
        assert_eq!(shown["ports"], Value::from(vec![PLAIN]), "{shown}");
        // A port without a voucher is used as ever, and so is the same port by its address.
        let before = stage.front("connected");
        stage.nginx.put("little", b"x");
        assert_eq!(stage.get(&up, OTHER, "little").out(), b"x", "{}", up.log());
        assert_eq!(stage.front("connected"), before, "{}", up.log());
        up.end();
    }
    server.end();
}

#[test]
fn a_downgrade_of_a_server_that_is_vouched_for_is_refused_and_told() {
    let test = "a_downgrade_of_a_server_that_is_vouched_for_is_refused_and_told";
    let Some(stage) = vouched(test) else {
        return;
    };
    let server = stage.serve();
    stage.vouch(&[]);
    stage.nginx.put("little", b"x");
    let up = stage.up_vouched(&["--discover"]);
    assert_eq!(stage.get(&up, PLAIN, "little").out(), b"x", "{}", up.log());
    up.end();
    server.end();

    // Another host answers there, which fronts as the server did; then none with Hawser does.
    std::fs::remove_file(stage.place.path("server/key")).unwrap();
    let other = stage.serve();
    stage.nginx.put("never", b"x");
    let refused = |why: &str, up: &Daemon| {
        for _ in 0..3 {
            let done = stage.get(up, PLAIN, "never");
            assert_eq!(done.status.code(), Some(BY_PROXY), "{}", up.log());
        }
        let told = stage.shown()["refused"].to_string();
        assert!(told.contains(why), "{told}");
        let events = || stage.place.run("client", &["events"]).out;
        let told = format!("a connection to {NAME} is refused: port {PLAIN}: ");
        until("there is an event", || events().contains(&told), events);
    };
    for arguments in [&[][..], &["--discover"]] {
        let up = stage.up_vouched(arguments);
        refused("the host proves the key", &up);
        if stage.attacks(CLOSES_AND_STRIPS, test) {
            refused("can't reach port 745 of the name", &up);
            stage.attacks("", test);
        }
        up.end();
    }
    assert_eq!(stage.front("connected"), 0, "{}", other.log());
    assert_eq!(stage.front("passed-on"), 0, "{}", other.log());
    other.end();

    // Nor when no host with Hawser is there.
    let up = stage.up_vouched(&["--discover"]);
    refused("can't reach port 745 of the name", &up);
    up.end();
    let log = std::fs::read_to_string(stage.place.path("nginx/access.log")).unwrap();
    assert!(!log.contains("/never"), "{log}");
}

#[test]
fn a_voucher_outlives_a_restart_without_network_and_changes_in_order() {
    let test = "a_voucher_outlives_a_restart_without_network_and_changes_in_order";
    let Some(stage) = vouched(test) else {
        return;
    };
    stage.nginx.put("little", b"x");
    let connected = |up: &Daemon| {
        let before = stage.front("connected");
        assert_eq!(stage.get(up, PLAIN, "little").out(), b"x", "{}", up.log());
        stage.front("connected") - before
    };
    // Without a voucher nothing is sent to it.
    let server = stage.serve();
    let up = stage.up_vouched(&[]);
    let done = stage.get(&up, OTHER, "little");
    assert_eq!(done.status.code(), Some(BY_PROXY), "{}", up.log());
    let told = stage.shown()["refused"].to_string();
    assert!(told.contains("404"), "{told}");
    // It is fetched as soon as it is there.
    let next = stage.another_key();
    stage.vouch(&["--key", &next]);
    let is_bonded = || stage.get(&up, PLAIN, "little").status.success();
    until("the voucher is known", is_bonded, || up.log());
    assert_eq!(stage.front("connected"), 1, "{}", up.log());
    assert_eq!(stage.shown()["refused"], Value::Null);
    up.end();

    // The server has the next key, which no voucher announces any more.
    server.end();
    let (key, next) = (stage.place.path("server/key"), stage.place.path("next/key"));
    std::fs::rename(next, key).unwrap();
    std::fs::remove_file(stage.nginx.path(".well-known/hawser")).unwrap();
    let server = stage.serve();
    let up = stage.up_vouched(&[]);
    assert_eq!(connected(&up), 1, "{}", up.log());
    up.end();

    // Its owner has it no more.
    stage.publish(&["voucher", "--none"]);
    let up = stage.up_vouched(&[]);
    until("it goes as ever", || connected(&up) == 0, || up.log());
    let shown = stage.shown();
    assert_eq!(shown["ports"], Value::Array(Vec::new()), "{shown}");
    up.end();
    server.end();
}

#[test]
fn a_voucher_is_believed_only_of_the_name_itself() {
    let test = "a_voucher_is_believed_only_of_the_name_itself";
    let Some(stage) = vouched(test) else {
        return;
    };
    let server = stage.serve();
    stage.vouch(&[]);
    stage.nginx.put("little", b"x");
    // By authorities that know nothing of its certificate.
    let others = stage.place.folder("others");
    certify(&others);
    stage.configure(&others.join("ca.pem"));
    let up = stage.up_vouched(&[]);
    let done = stage.get(&up, PLAIN, "little");
    assert_eq!(done.status.code(), Some(BY_PROXY), "{}", up.log());
    let told = stage.shown()["refused"].to_string();
    assert!(
        told.contains("TLS: ") && told.contains("certificate"),
        "{told}"
    );
    up.end();
    server.end();
}

/// Creates a stage whose web server has HTTPS and a name; `None`, with a report, if something is
/// missing here.
fn vouched(test: &str) -> Option<Stage> {
    if is_without(&["openssl", "unshare", "mount"], test) || !can_mount(test) {
        return None;
    }
    let stage = Stage::with(test, |place| {
        let folder = place.folder("nginx");
        certify(&folder);
        let keys = "ssl_certificate cert.pem; ssl_certificate_key key.pem;";
        format!("listen 443 ssl; ssl_protocols TLSv1.3; {keys}")
    })?;
    let hosts = format!("127.0.0.1 localhost\n{SERVER} {NAME}\n");
    std::fs::write(stage.place.path("hosts"), hosts).unwrap();
    stage.configure(&stage.place.path("nginx/ca.pem"));
    Some(stage)
}

fn can_mount(test: &str) -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        hawser_skip::skip(
            &format!("real_clients::{test}"),
            "no mounts of one's own here",
        );
    }
    can
}

/// Makes an authority, and a certificate of it for [`NAME`].
fn certify(folder: &std::path::Path) {
    let openssl = |arguments: &str| {
        let mut openssl = Command::new("openssl");
        let done = openssl
            .current_dir(folder)
            .args(arguments.split(' '))
            .output();
        let done = done.unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30";
    openssl(&format!(
        "req -x509 {new} -subj /CN=authority -keyout ca-key.pem -out ca.pem"
    ));
    openssl(&format!(
        "req -x509 {new} -subj /CN={NAME} -addext subjectAltName=DNS:{NAME} \
         -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca-key.pem \
         -keyout key.pem -out cert.pem"
    ));
}

impl Stage {
    /// Makes the client trust the authority in a file.
    fn configure(&self, authority: &std::path::Path) {
        let text = format!("[up]\nvouched-certificates = {authority:?}\n");
        std::fs::write(self.place.path("up.toml"), text).unwrap();
    }

    /// Starts the client, for which [`NAME`] leads to the server and needs its voucher.
    fn up_vouched(&self, arguments: &[&str]) -> Daemon {
        let hosts = self.place.path("hosts");
        let script = format!("mount --bind {} /etc/hosts && exec \"$@\"", hosts.display());
        let mut hawser = self.network.client.command("unshare");
        hawser.args(["--mount", "--", "sh", "-c", &script, "sh"]);
        hawser.arg(env!("CARGO_BIN_EXE_hawser"));
        hawser.arg("--config").arg(self.place.path("up.toml"));
        let always = ["up", "--listen", "127.0.0.1:0", "--vouched", NAME];
        self.start("client", hawser, &[&always[..], arguments].concat())
    }

    /// Publishes the voucher of the server's owner: for [`PLAIN`] alone, and its key.
    fn vouch(&self, arguments: &[&str]) {
        let ports = PLAIN.to_string();
        let always = ["voucher", "--ports", &ports];
        self.publish(&[&always[..], arguments].concat());
    }

    fn publish(&self, arguments: &[&str]) {
        let voucher = self.place.run("server", arguments);
        voucher.expect(0, "");
        let path = self.nginx.path(".well-known/hawser");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As a whole, as it may be fetched at any time.
        let new = path.with_extension("new");
        std::fs::write(&new, voucher.out).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// A key that the server may have next, in the state `next`.
    fn another_key(&self) -> String {
        let arguments = ["voucher", "--ports", "1"];
        let printed = self.place.run("next", &arguments).out;
        let key = printed.lines().find_map(|line| line.strip_prefix("key "));
        key.unwrap().to_owned()
    }

    /// Downloads a file from a port of [`NAME`] by the client's proxy port, which looks it up.
    fn get(&self, up: &Daemon, port: u16, file: &str) -> Done {
        let proxy = format!("socks5h://{}", up.listen(&self.place).unwrap());
        let mut curl = self.network.client.command("curl");
        curl.args(["--silent", "--show-error", "--fail", "--proxy", &proxy]);
        curl.arg(format!("http://{NAME}:{port}/{file}"));
        run(&self.place, &mut curl)
    }

    /// Returns what the client shows about the name.
    fn shown(&self) -> Value {
        let status = self.place.status("client").unwrap();
        status["connections"]["vouched"][0].clone()
    }

    /// Lets an attacker on the path do this from now on, in place of the previous attack; reports
    /// if that is impossible.
    fn attacks(&self, rules: &str, test: &str) -> bool {
        self.filters(&self.network.client, rules, test)
    }
}

const NAME: &str = "vouched.test";
/// Curl's exit code if the proxy refuses to connect.
const BY_PROXY: i32 = 97;
/// Filters SYNs that leave, and SYN-ACKs that arrive.
const STRIPS: &str = "chain to { type filter hook postrouting priority 0; \
                      tcp flags & (syn | ack) == syn reset tcp option 254; }; \
                      chain from { type filter hook prerouting priority -300; \
                      tcp flags & (syn | ack) == (syn | ack) reset tcp option 254; }";
const CLOSES_AND_STRIPS: &str = "chain to { type filter hook postrouting priority 0; \
                                 tcp flags & (syn | ack) == syn reset tcp option 254; \
                                 tcp dport 745 drop; }; \
                                 chain from { type filter hook prerouting priority -300; \
                                 tcp flags & (syn | ack) == (syn | ack) reset tcp option 254; }";
