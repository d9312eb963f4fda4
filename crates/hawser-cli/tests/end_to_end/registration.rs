//! A host with two links that registers its addresses with a directory.

#[path = "../../../hawser-net/tests/kamailio/server.rs"]
pub(crate) mod kamailio;

use std::process::Command;

use hawser_sip::digest::Algorithm;
use hawser_skip::namespace::{Neighbour, in_namespace, ip};
use serde_json::Value;

use super::connections::two_links;
use super::directory::write_private;
use super::program::{Daemon, Place, until};
use super::silent_link::HAWSER;

/// A host with two links, and a directory behind them.
struct Stage {
    place: Place,
    far: Neighbour,
}

impl Stage {
    fn new() -> Self {
        let (place, far) = (Place::new(), two_links());
        write_private(&place.path("users"), "alice:a secret\n");
        write_private(&place.path("password"), "a secret\n");
        Self { place, far }
    }

    fn serve(&self) -> Daemon {
        let mut serve = self.far.command(HAWSER);
        serve.arg("--state").arg(self.place.path("gateway"));
        serve.args([
            "serve",
            "--listen",
            "10.99.0.1:7443",
            "--directory",
            "example.org",
        ]);
        serve.args(["--directory-listen", "10.99.0.1:5060"]);
        serve.arg("--directory-users").arg(self.place.path("users"));
        let gateway = self.place.launch_command("gateway", serve);
        let is_ready = || {
            self.place
                .status("gateway")
                .is_some_and(|it| !it["directory"].is_null())
        };
        until("the directory is ready", is_ready, || gateway.log());
        gateway
    }

    fn up(&self, directory: &str) -> Daemon {
        self.up_with("", directory)
    }

    /// Starts the host with this configuration.
    fn up_with(&self, text: &str, directory: &str) -> Daemon {
        let config = self.place.path("config");
        std::fs::write(&config, text).unwrap();
        let password = self.place.path("password");
        let arguments = [
            "--config",
            config.to_str().unwrap(),
            "up",
            "--direct",
            "--listen",
            "127.0.0.1:0",
            "--directory",
            directory,
        ];
        let name = ["--name", "alice@example.org", "--directory-password-file"];
        let password = [password.to_str().unwrap()];
        self.place
            .start("client", &[&arguments[..], &name, &password].concat())
    }

    /// Returns the addresses of contacts in the directory, the preferred ones first.
    fn registered(&self) -> Vec<String> {
        let status = self.place.status("gateway").unwrap_or_default();
        let bindings = status["directory"]["bindings"].as_array().cloned();
        let mut bindings = bindings.unwrap_or_default();
        bindings.sort_by_key(|it| it["contact"].to_string());
        let contacts = bindings.iter().map(|it| {
            let contact = it["contact"].as_str().unwrap();
            let host = contact.strip_prefix("sip:alice@").unwrap();
            host.rsplit_once(':').unwrap().0.to_owned()
        });
        contacts.collect()
    }

    fn own(&self) -> Value {
        self.place.status("client").unwrap_or_default()["registration"].clone()
    }

    fn until_told(&self, event: &str, up: &Daemon) {
        let events = || self.place.run("client", &["events"]).out;
        until(event, || events().contains(event), || events() + &up.log());
    }

    fn until_registered(&self, wanted: &[&str], up: &Daemon) {
        let said = || format!("{:?} {}\n{}", self.registered(), self.own(), up.log());
        until("it is registered so", || self.registered() == wanted, said);
    }
}

/// Tests this transport: all links, one that disappears, one that appears, and the end.
fn follows_its_links(directory: &str) {
    let stage = Stage::new();
    let gateway = stage.serve();
    let up = stage.up(directory);
    stage.until_registered(&["10.1.0.2", "10.2.0.2"], &up);
    until(
        "the host knows",
        || stage.own()["is_registered"] == true,
        || up.log(),
    );
    assert_eq!(stage.own()["contacts"].as_array().unwrap().len(), 2);
    ip("link set dsl down");
    stage.until_registered(&["10.2.0.2"], &up);
    ip("link set dsl up");
    ip("route add default via 10.1.0.1 dev dsl metric 100");
    stage.until_registered(&["10.1.0.2", "10.2.0.2"], &up);
    // Neither end has the password in its log.
    assert!(!up.log().contains("secret") && !gateway.log().contains("secret"));
    up.end();
    stage.until_registered(&[], &gateway);
}

#[test]
fn a_host_is_registered_with_all_its_links_over_datagrams() {
    in_namespace(
        "registration::a_host_is_registered_with_all_its_links_over_datagrams",
        || follows_its_links("sip:10.99.0.1"),
    );
}

#[test]
fn a_host_is_registered_with_all_its_links_over_tcp() {
    in_namespace(
        "registration::a_host_is_registered_with_all_its_links_over_tcp",
        || follows_its_links("sip:10.99.0.1;transport=tcp"),
    );
}

#[test]
fn a_directory_that_comes_later_or_again_has_the_host_and_doctor_says_when_it_has_not() {
    in_namespace(
        "registration::a_directory_that_comes_later_or_again_has_the_host_and_doctor_says_when_it_\
         has_not",
        || {
            let stage = Stage::new();
            let up = stage.up("sip:10.99.0.1");
            // No server listens: the neighbour's kernel refuses at once.
            let has_failed = || stage.own()["reason"].is_string();
            until("the host knows", has_failed, || up.log());
            stage.until_told(
                "alice@example.org is not registered with its directory: ",
                &up,
            );
            let said = stage.place.run("client", &["doctor"]).out;
            assert!(
                said.contains("alice@example.org is not registered"),
                "{said}"
            );
            let gateway = stage.serve();
            stage.until_registered(&["10.1.0.2", "10.2.0.2"], &up);
            until(
                "the host knows",
                || stage.own()["is_registered"] == true,
                || up.log(),
            );
            stage.until_told("alice@example.org is registered with its directory", &up);
            let said = stage.place.run("client", &["doctor"]).out;
            assert!(
                said.contains("alice@example.org is registered with"),
                "{said}"
            );
            gateway.kill();
            let _gateway = stage.serve();
            stage.until_registered(&["10.1.0.2", "10.2.0.2"], &up);
            up.end();
        },
    );
}

#[test]
fn behind_a_translator_the_directory_has_the_outer_address() {
    if Command::new("nft").arg("-v").output().is_err() {
        let test = "end_to_end::registration::behind_a_translator";
        return hawser_skip::skip(test, "no nft here");
    }
    in_namespace(
        "registration::behind_a_translator_the_directory_has_the_outer_address",
        || {
            let stage = Stage::new();
            // The host's own kernel translates: outside it is seen with another port.
            let rules = "table ip n {\nchain p {\ntype nat hook postrouting priority 100\n\
                         oifname \"lte\" udp dport 5060 masquerade to :40000-40009\n}\n}\n";
            std::fs::write(stage.place.path("rules"), rules).unwrap();
            let loaded = Command::new("nft")
                .arg("-f")
                .arg(stage.place.path("rules"))
                .status();
            assert!(loaded.unwrap().success());
            let _gateway = stage.serve();
            let up = stage.up("sip:10.99.0.1");
            let outer = || {
                let status = stage.place.status("gateway").unwrap_or_default();
                status["directory"]["bindings"].to_string()
            };
            until(
                "it is seen",
                || outer().contains("sip:alice@10.2.0.2:4000"),
                outer,
            );
            up.end();
        },
    );
}

/// Registers with Kamailio, which knows alice by the password `a`.
fn registers_with_kamailio(test: &str, parameter: &str) {
    let stage = Stage::new();
    let at = "10.99.0.1:5060".parse().unwrap();
    let run = |program: &str| stage.far.command(program);
    let Some(_kamailio) = kamailio::Kamailio::start(Algorithm::Sha256, at, run) else {
        let reason = "kamailio (package kamailio) is not installed";
        return hawser_skip::skip(&format!("end_to_end::{test}"), reason);
    };
    let directory = format!("sip:10.99.0.1{parameter}");
    let wrong = stage.up(&directory);
    let is_refused = || stage.own()["reason"].to_string().contains("the password");
    until("the password is refused", is_refused, || {
        stage.own().to_string()
    });
    assert_eq!(stage.own()["is_registered"], false);
    wrong.end();
    write_private(&stage.place.path("password"), "a\n");
    let right = stage.up(&directory);
    // It counts only when Kamailio lists the contacts.
    let is_there = || stage.own()["is_registered"] == true;
    until("it is registered", is_there, || stage.own().to_string());
    let own = stage.own();
    assert!(own["left_ms"].as_f64().unwrap() > 500_000.0, "{own}");
    assert_eq!(own["contacts"].as_array().unwrap().len(), 2);
    assert_eq!(own["other_count"], 0);
    right.end();
}

#[test]
fn kamailio_has_a_host_over_datagrams() {
    let test = "registration::kamailio_has_a_host_over_datagrams";
    in_namespace(test, || registers_with_kamailio(test, ""));
}

#[test]
fn kamailio_has_a_host_over_tcp() {
    let test = "registration::kamailio_has_a_host_over_tcp";
    in_namespace(test, || registers_with_kamailio(test, ";transport=tcp"));
}

/// Creates a certificate for an address, and its key, in these files. Returns `false` on failure.
fn certificate(place: &Place, address: &str) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "30"])
        .args([
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-subj",
            "/CN=example.org",
        ])
        .args(["-addext", &format!("subjectAltName=IP:{address}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(place.path("certificate"))
        .arg("-keyout")
        .arg(place.path("key"))
        .output();
    let Ok(made) = made else {
        return false;
    };
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    true
}

#[test]
fn kamailio_has_a_host_over_tls_and_another_one_is_not_believed() {
    let test = "registration::kamailio_has_a_host_over_tls_and_another_one_is_not_believed";
    in_namespace(test, || {
        let stage = Stage::new();
        write_private(&stage.place.path("password"), "a\n");
        let skip = |reason| hawser_skip::skip(&format!("end_to_end::{test}"), reason);
        if !certificate(&stage.place, "10.99.0.1") {
            return skip("openssl is not installed");
        }
        let path = |name: &str| stage.place.path(name).display().to_string();
        let tls = kamailio::Beside {
            file: "tls.cfg",
            module: "tls.so",
            own: &[
                ("192.0.2.1:5061", "10.99.0.1:5061".to_owned()),
                ("/etc/kamailio/directory.crt", path("certificate")),
                ("/etc/kamailio/directory.key", path("key")),
            ],
        };
        let at = "10.99.0.1:5060".parse().unwrap();
        let run = |program: &str| stage.far.command(program);
        let sha = Algorithm::Sha256;
        let Some(_kamailio) = kamailio::Kamailio::start_beside(sha, at, &tls, run) else {
            return skip("kamailio (packages kamailio, kamailio-tls-modules) is not installed");
        };
        let believing = |place: &Place| {
            let file = place.path("certificate");
            let text = format!("[up]\ndirectory-certificates = {file:?}\n");
            stage.up_with(&text, "sip:10.99.0.1:5061;transport=tls")
        };
        // Another server's certificate.
        let other = Place::new();
        certificate(&other, "10.99.0.1");
        let up = believing(&other);
        let has_failed = || stage.own()["reason"].is_string();
        until("it is not believed", has_failed, || up.log());
        assert_eq!(stage.own()["is_registered"], false);
        up.end();
        let up = believing(&stage.place);
        let is_there = || stage.own()["is_registered"] == true;
        until("it is registered", is_there, || stage.own().to_string());
        assert_eq!(stage.own()["contacts"].as_array().unwrap().len(), 2);
        up.end();
    });
}

#[test]
fn what_a_registration_lacks_is_told_before_anything_is_opened() {
    let place = Place::new();
    let ended = place.run("client", &["up", "--name", "alice"]);
    ended.expect(2, "alice@example.org");
    let ended = place.run("client", &["up", "--name", "alice@example.org"]);
    ended.expect(2, "HAWSER_DIRECTORY_PASSWORD");
    let ended = place.run("client", &["up", "--directory", "sip:example.org"]);
    ended.expect(2, "--name");
    write_private(&place.path("password"), "p\n");
    let password = place.path("password");
    let with = ["--directory-password-file", password.to_str().unwrap()];
    let name = [
        "up",
        "--name",
        "alice@example.org",
        "--directory",
        "http://example.org",
    ];
    place
        .run("client", &[&name[..], &with].concat())
        .expect(2, "sip:example.org");
}
