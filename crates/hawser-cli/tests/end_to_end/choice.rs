//! `hawser up` with a gateway as one route among others, over two real links.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use hawser_capture::{CaptureError, RunGroup};
use hawser_skip::TestFolder;
use hawser_skip::namespace::{Neighbour, in_namespace, in_namespace_of_root};
use serde_json::Value;

use super::captured::in_hierarchy;
use super::connections::two_links;
use super::program::{Daemon, Place, until};

#[test]
fn rules_and_what_is_near_leave_a_gateway_for_everything_aside() {
    let name = "choice::rules_and_what_is_near_leave_a_gateway_for_everything_aside";
    in_namespace(name, || {
        let Some(scene) = Scene::new(name) else {
            return;
        };
        scene.config(
            "[[rule]]\nport = 82\nmode = \"direct\"\n\
             [[rule]]\nport = 83\nonly = \"lte\"\n",
        );
        let up = scene.up(&[]);
        scene.until_there_is_a_session(&up);
        // The gateway asks from its own address.
        assert_eq!(scene.seen(&up, SERVER, 81), SERVER);
        let direct = scene.seen(&up, SERVER, 82);
        assert!([DSL, LTE].contains(&direct.as_str()), "{direct}");
        assert_eq!(scene.seen(&up, SERVER, 83), LTE);
        // A network of this machine's.
        assert_eq!(scene.seen(&up, "10.2.0.1", 81), LTE);
        let status = scene.status();
        assert_eq!(status["gateway"]["placed"], 1, "{status}");
        assert_eq!(status["gateway"]["use"], "always", "{status}");
        assert_eq!(status["placed"], 2, "{status}");
        // Without a session, it is waited for.
        scene.end_gateway();
        assert_eq!(scene.seen(&up, SERVER, 81), "");
        assert_ne!(scene.seen(&up, SERVER, 82), "");
        up.end();
    });
}

#[test]
fn a_gateway_that_is_weighed_is_for_what_gains_and_nothing_depends_on_it() {
    let name = "choice::a_gateway_that_is_weighed_is_for_what_gains_and_nothing_depends_on_it";
    in_namespace(name, || {
        let Some(scene) = Scene::new(name) else {
            return;
        };
        // By address each is a site of its own.
        for address in ["10.99.0.2/32", "10.99.0.3/32"] {
            scene.neighbour.ip(&format!("address add {address} dev lo"));
        }
        scene.config(
            "[[rule]]\nport = 81\nclass = \"bulk\"\n\
             [[rule]]\nport = 82\nclass = \"real-time\"\n",
        );
        let up = scene.up(&["--via-gateway", "auto"]);
        scene.until_there_is_a_session(&up);
        // What is long takes all links; what is heard the shorter way.
        assert_eq!(scene.seen(&up, SERVER, 81), SERVER);
        assert!([DSL, LTE].contains(&scene.seen(&up, "10.99.0.2", 82).as_str()));
        // A site goes on seeing the same address.
        assert_eq!(scene.seen(&up, SERVER, 82), SERVER);
        scene.end_gateway();
        for site in [SERVER, "10.99.0.2", "10.99.0.3"] {
            let seen = scene.seen(&up, site, 81);
            assert!([DSL, LTE].contains(&seen.as_str()), "{seen} {}", up.log());
        }
        let status = scene.status();
        assert_eq!(status["gateway"]["placed"], 2, "{status}");
        assert_eq!(status["placed"], 4, "{status}");
        up.end();
    });
}

#[test]
fn captured_programs_go_by_the_gateway_but_for_what_rules_leave_to_the_kernel() {
    let name = "choice::captured_programs_go_by_the_gateway_but_for_what_rules_leave_to_the_kernel";
    in_namespace_of_root(name, || {
        let group = match RunGroup::create() {
            Ok(group) => group,
            Err(error @ (CaptureError::NoControlGroups | CaptureError::NotPermitted(_))) => {
                return hawser_skip::skip(name, &error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        let Some(scene) = Scene::new(name) else {
            return;
        };
        let (of_group, other) = (in_hierarchy(&group), scene.place.path("other"));
        copy_curl(&other);
        scene.config(&format!(
            "[[rule]]\nport = 82\nmode = \"direct\"\n\
             [[rule]]\nport = 83\ncgroup = \"{of_group}\"\nonly = \"lte\"\n\
             [[rule]]\nexecutable = \"{}\"\nnever = \"dsl\"\n",
            other.display()
        ));
        let scope = format!("cgroup:{}", group.path().display());
        let up = scene.up(&["--capture", &scope]);
        scene.until_there_is_a_session(&up);
        let seen = |server: &str, port: u16| said_in(&group, curl(server, port));
        let is_captured = || seen(SERVER, 81) == SERVER;
        until("it goes by the gateway", is_captured, || up.log());
        let direct = seen(SERVER, 82);
        assert!([DSL, LTE].contains(&direct.as_str()), "{direct}");
        assert_eq!(seen("10.2.0.1", 81), LTE);
        // A session would take dsl as well.
        assert_eq!(seen(SERVER, 83), LTE);
        // The kernel's program hears of its file too late; who makes the connection looks again.
        let by_other = by(Command::new(&other), SERVER, 81);
        assert_eq!(said_in(&group, by_other), LTE);
        // What the kernel has placed was never in the daemon's hands.
        let accepted = &scene.place.status("client").unwrap()["counters"]["proxy-accepted"];
        assert_eq!(*accepted, 0);
        let is_heard_of = || {
            let status = scene.status();
            status["placed"] == 3 && status["gateway"]["placed"].as_u64() >= Some(1)
        };
        until("the daemon has heard of both", is_heard_of, || {
            up.log() + &scene.status().to_string()
        });
        let use_it = |usage: &str| {
            let arguments = ["policy", "set", "--via-gateway", usage];
            assert_eq!(scene.place.run("client", &arguments).code, 0);
        };
        use_it("never");
        let is_direct = || [DSL, LTE].contains(&seen(SERVER, 81).as_str());
        until("it goes straight", is_direct, || up.log());
        use_it("always");
        until("it goes by the gateway again", is_captured, || up.log());
        up.kill();
        let after = seen(SERVER, 81);
        assert_eq!(after, DSL, "as without");
    });
}

#[test]
fn a_gateway_is_left_and_taken_again_while_the_daemon_runs() {
    let name = "choice::a_gateway_is_left_and_taken_again_while_the_daemon_runs";
    in_namespace(name, || {
        let Some(scene) = Scene::new(name) else {
            return;
        };
        scene.config("# All by the gateway.\n[connection]\ngateway = \"always\" # for now\n");
        let up = scene.up(&[]);
        scene.until_there_is_a_session(&up);
        let use_it = |usage: &str, more: &[&str]| {
            let arguments = ["policy", "set", "--via-gateway", usage];
            let ended = scene.place.run("client", &[&arguments[..], more].concat());
            assert_eq!(ended.code, 0, "{ended:?}");
        };
        assert_eq!(scene.seen(&up, SERVER, 81), SERVER);
        use_it("never", &["--save"]);
        let direct = scene.seen(&up, SERVER, 81);
        assert!([DSL, LTE].contains(&direct.as_str()), "{direct}");
        assert_eq!(scene.status()["gateway"]["use"], "never");
        let written = std::fs::read_to_string(scene.place.path("hawser.toml")).unwrap();
        let expected = "# All by the gateway.\n[connection]\ngateway = \"never\" # for now\n";
        assert_eq!(written, expected);
        use_it("always", &[]);
        assert_eq!(scene.seen(&up, SERVER, 81), SERVER);
        // What was counted before is not forgotten.
        assert_eq!(scene.status()["gateway"]["placed"], 2);
        up.end();
    });
}

/// A client with two links, a gateway behind them, and a web server beside the gateway that returns
/// the client's address.
struct Scene {
    place: Place,
    neighbour: Neighbour,
    gateway: std::cell::RefCell<Option<Daemon>>,
    _web: Nginx,
}

impl Scene {
    fn new(test: &str) -> Option<Self> {
        if Command::new("nginx").arg("-v").output().is_err() {
            hawser_skip::skip(&format!("end_to_end::{test}"), "no nginx here");
            return None;
        }
        let (place, neighbour) = (Place::new(), two_links());
        let web = Nginx::start(&neighbour);
        let gateway = gateway(&place, &neighbour);
        Some(Self {
            place,
            neighbour,
            gateway: Some(gateway).into(),
            _web: web,
        })
    }

    fn config(&self, text: &str) {
        std::fs::write(self.place.path("hawser.toml"), text).unwrap();
    }

    fn up(&self, arguments: &[&str]) -> Daemon {
        let (config, invite) = (self.place.path("hawser.toml"), self.place.invite());
        let config = config.to_str().unwrap();
        let always = ["--config", config, "up", "--listen", "127.0.0.1:0"];
        let gateway = ["--gateway", &invite];
        self.place
            .start("client", &[&always[..], &gateway, arguments].concat())
    }

    /// Waits until both links are in a session that the director knows of.
    fn until_there_is_a_session(&self, up: &Daemon) {
        let is_there = || {
            let status = self.place.status("client").unwrap();
            status["connections"]["gateway"]["links"] == 2
        };
        until("there is a session", is_there, || up.log());
    }

    fn end_gateway(&self) {
        self.gateway.take().into_iter().for_each(Daemon::kill);
        let is_gone = || self.status()["gateway"]["is_up"] == false;
        until("the session is gone", is_gone, || self.status().to_string());
    }

    fn status(&self) -> Value {
        self.place.status("client").unwrap()["connections"].clone()
    }

    /// Returns the address that the server sees as curl asks it through the proxy; empty without an
    /// answer.
    fn seen(&self, up: &Daemon, server: &str, port: u16) -> String {
        let proxy = format!("socks5h://{}", up.listen(&self.place).unwrap());
        let mut curl = curl(server, port);
        curl.args(["--noproxy", "", "--proxy", &proxy]);
        said(curl)
    }
}

/// Starts a gateway in the neighbour; its invite is in the place.
pub(crate) fn gateway(place: &Place, neighbour: &Neighbour) -> Daemon {
    configured_gateway(place, neighbour, None)
}

/// Starts a gateway with this file of the place as its configuration.
pub(crate) fn configured_gateway(
    place: &Place,
    neighbour: &Neighbour,
    config: Option<&str>,
) -> Daemon {
    let invite = place.path("invite");
    let mut serve = neighbour.command(env!("CARGO_BIN_EXE_hawser"));
    if let Some(config) = config {
        serve.arg("--config").arg(place.path(config));
    }
    serve.arg("--state").arg(place.path("gateway"));
    serve.args(["serve", "--listen", "10.99.0.1:7443"]);
    serve.args(["--allow-destination", "10.99.0.0/16"]);
    serve.arg("--invite-file").arg(&invite);
    let gateway = place.launch_command("gateway", serve);
    until("an invite is written", || invite.exists(), || gateway.log());
    gateway
}

fn curl(server: &str, port: u16) -> Command {
    by(Command::new("curl"), server, port)
}

fn by(mut curl: Command, server: &str, port: u16) -> Command {
    curl.args(["-s", "-m", "20"]);
    curl.arg(format!("http://{server}:{port}/"));
    curl
}

fn said(mut command: Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn said_in(group: &RunGroup, mut command: Command) -> String {
    group.enter(&mut command).unwrap();
    said(command)
}

/// The same program under another name.
fn copy_curl(to: &Path) {
    let script = format!("cp \"$(command -v curl)\" {}", to.display());
    let copied = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(copied.success());
}

/// A web server of the neighbour that returns the client's address.
struct Nginx {
    child: Child,
    _folder: TestFolder,
}

impl Nginx {
    fn start(neighbour: &Neighbour) -> Self {
        let folder = TestFolder::new();
        let config = folder.path().join("nginx.conf");
        let ports = [81, 82, 83].map(|port| format!("listen {port};")).join(" ");
        let text = format!(
            "daemon off; user root; master_process off; pid {0}/pid; error_log {0}/error.log;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {0}; proxy_temp_path {0};\n\
             fastcgi_temp_path {0}; uwsgi_temp_path {0}; scgi_temp_path {0};\n\
             server {{ {ports} return 200 $remote_addr; }} }}\n",
            folder.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let mut nginx = neighbour.command("nginx");
        nginx.arg("-c").arg(&config).arg("-e").arg("/dev/null");
        let child = nginx
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(
            "the web server answers",
            || !said(curl(SERVER, 81)).is_empty(),
            || std::fs::read_to_string(folder.path().join("error.log")).unwrap_or_default(),
        );
        Self {
            child,
            _folder: folder,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SERVER: &str = "10.99.0.1";
const DSL: &str = "10.1.0.2";
const LTE: &str = "10.2.0.2";
