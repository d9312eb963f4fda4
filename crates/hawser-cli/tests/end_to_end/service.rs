//! Running as a service: notifications to the service manager, and a log that programs can parse.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Daemon, Place, read, until};

/// Socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn new(place: &Place) -> Self {
        let socket = UnixDatagram::bind(place.path("notify")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self(socket)
    }

    /// Returns the next notification.
    fn hear(&self, daemon: &Daemon) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer);
        let length = length.unwrap_or_else(|error| panic!("{error}: {}", daemon.log()));
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }
}

#[test]
fn the_service_manager_hears_when_a_daemon_is_ready_and_when_it_ends() {
    let place = Place::new();
    let manager = Manager::new(&place);
    for arguments in [&["serve"][..], &["up", "--direct", "--link", "lo"]] {
        let arguments = [arguments, &["--listen", "127.0.0.1:0"]].concat();
        let mut command = place.hawser("service", &arguments);
        command.env("NOTIFY_SOCKET", place.path("notify"));
        let mut daemon = place.launch_command("service", command);
        let ready = manager.hear(&daemon);
        let listen = daemon.listen(&place).expect("it answers once it is ready");
        assert_eq!(ready, format!("READY=1\nSTATUS=listening at {listen}\n"));
        daemon.signal(Signal::TERM);
        assert_eq!(manager.hear(&daemon), "STOPPING=1\n");
        assert_eq!(daemon.wait(), Some(0), "{}", daemon.log());
    }
}

#[test]
fn a_watched_daemon_says_again_and_again_that_it_lives() {
    let place = Place::new();
    let manager = Manager::new(&place);
    let daemon = place.hawser("service", &["serve", "--listen", "127.0.0.1:0"]);
    let mut watched = Command::new("sh");
    // The number of the process that is watched is its own.
    watched.args(["-c", "export WATCHDOG_PID=$$; exec \"$@\"", "sh"]);
    watched.arg(daemon.get_program()).args(daemon.get_args());
    watched.env("NOTIFY_SOCKET", place.path("notify"));
    watched.env("WATCHDOG_USEC", "30000000");
    let daemon = place.launch_command("service", watched);
    let mut lives = 0;
    while lives < 2 {
        match manager.hear(&daemon).as_str() {
            "WATCHDOG=1\n" => lives += 1,
            other => assert!(other.starts_with("READY=1\n"), "{other}"),
        }
    }
    daemon.end();
}

#[test]
fn a_log_in_json_has_an_object_a_line_and_no_secret_at_any_level() {
    let place = Place::new();
    let logged = ["--log", "trace", "--log-format", "json"];
    let (invite_file, invite) = (place.path("invite"), place.invite());
    let listen = ["--listen", "127.0.0.1:0"];
    let serve = ["serve", "--invite-file", invite_file.to_str().unwrap()];
    let gateway = place.start("gateway", &[&serve[..], &listen, &logged].concat());
    let web = ["--web", "127.0.0.1:0"];
    let up = ["up", "--link", "lo", "--gateway", &invite];
    let up = place.start("client", &[&up[..], &listen, &web, &logged].concat());
    let secrets = secrets(&place);
    // The last line may not be whole yet.
    let logs = [&gateway, &up].map(|daemon| {
        let log = daemon.log();
        log.rsplit_once('\n')
            .map_or("", |(whole, _)| whole)
            .to_owned()
    });
    up.end();
    gateway.end();
    let again = place.run(
        "gateway",
        &[&["up", "--listen", "0.0.0.0:0"][..], &logged].concat(),
    );
    assert_eq!(again.code, 2);
    for log in [&logs[0], &logs[1], &again.err] {
        let lines: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect();
        assert!(
            lines
                .iter()
                .all(|line| line["level"].is_string() && line["fields"].is_object())
        );
        for secret in &secrets {
            assert!(!log.contains(secret), "{secret} is in the log");
        }
    }
    assert!(logs.iter().all(|log| log.contains("\"level\":\"TRACE\"")));
    let last: Value = serde_json::from_str(again.err.lines().last().unwrap()).unwrap();
    let message = last["fields"]["message"].as_str().unwrap();
    assert!(message.contains("0.0.0.0"), "{message}");
}

#[test]
fn root_looks_after_the_gateway_that_runs_as_another_user() {
    let place = Place::new();
    let as_service = |command: &mut Command| {
        command.uid(SERVICE).gid(SERVICE);
    };
    let mut version = place.hawser("gateway", &["--version"]);
    as_service(&mut version);
    if let Err(error) = version.output() {
        let test = "end_to_end::root_looks_after_the_gateway_that_runs_as_another_user";
        return hawser_skip::skip(test, &format!("can't run as another user: {error}"));
    }
    std::fs::set_permissions(place.path("."), Permissions::from_mode(0o711)).unwrap();
    chown(place.folder("gateway"), Some(SERVICE), Some(SERVICE)).unwrap();
    let mut serve = place.hawser("gateway", &["serve", "--listen", "127.0.0.1:0"]);
    as_service(&mut serve);
    let gateway = place.launch_command("gateway", serve);
    let listens = || gateway.listen(&place).is_some();
    until("the gateway listens", listens, || gateway.log());

    let invite = place.run("gateway", &["invite"]);
    assert_eq!(invite.code, 0, "{invite:?}");
    let up = place.up("client", &["--gateway", invite.out.trim()]);
    let peers = place.run("gateway", &["peers", "--json"]);
    let peers: Value = serde_json::from_str(&peers.out).unwrap();
    let key = peers["peers"][0]["key"].as_str().unwrap();
    assert_eq!(place.run("gateway", &["peers", "revoke", key]).code, 0);
    let sessions = || place.status("gateway").unwrap()["session_count"].clone();
    until("its sessions end", || sessions() == 0, || gateway.log());
    for file in std::fs::read_dir(place.path("gateway")).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().uid(), SERVICE, "{file:?}");
    }
    up.end();
    gateway.end();
}

/// The invite's secret part, both ends' private keys and the dashboard's token, in every
/// encoding that might be written.
fn secrets(place: &Place) -> Vec<String> {
    let invite = read(&place.path("invite"));
    let (_, fragment) = invite.trim().split_once('#').unwrap();
    let decoded = URL_SAFE_NO_PAD.decode(fragment).unwrap();
    // Behind the version and the gateway's public key.
    let mut bytes = vec![decoded[33..65].to_vec()];
    for state in ["gateway", "client"] {
        let key = read(&place.path(state).join("key"));
        let (_, key) = key.trim().rsplit_once(' ').unwrap();
        bytes.push(URL_SAFE_NO_PAD.decode(key).unwrap());
    }
    let written = bytes.iter().flat_map(|bytes| {
        assert_eq!(bytes.len(), 32);
        let hex = |byte: &u8| format!("{byte:02x}");
        let hex: String = bytes.iter().map(hex).collect();
        let list = format!("{:?}", &bytes[..8]);
        let list = list.trim_matches(['[', ']']).to_owned();
        let texts = [STANDARD_NO_PAD.encode(bytes), URL_SAFE_NO_PAD.encode(bytes)];
        [list, hex.to_uppercase(), hex].into_iter().chain(texts)
    });
    let token = read(&place.path("client/web-token"));
    assert_eq!(token.trim().len(), 43);
    let texts = [fragment.to_owned(), token.trim().to_owned()];
    written.chain(texts).collect()
}

/// A user without rights of its own.
const SERVICE: u32 = 61_234;
