//! Independent telephones: they register with the directory and call each other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hawser_skip::namespace::in_namespace;

use super::connections::two_links;
use super::directory::{Background, write_private};
use super::program::{Place, read, until};
use super::silent_link::HAWSER;

/// baresip, with a tone instead of a microphone.
struct Telephone {
    process: Background,
    log: PathBuf,
}

impl Telephone {
    /// Starts it at this address; it registers as `user` and then does `command`.
    fn start(place: &Place, user: &str, account: &str, at: &str, command: Option<&str>) -> Self {
        let folder = place.folder(user);
        let modules = ["opus", "ausine", "aufile"].map(|name| format!("module {name}.so\n"));
        let config = format!(
            "sip_listen {at}\nmodule_path {MODULES}\n{}module_app account.so\n\
             module_app menu.so\naudio_source ausine,440\naudio_player aufile,{out}\n\
             audio_alert aufile,{out}\n",
            modules.concat(),
            out = folder.join("sound.wav").display(),
        );
        std::fs::write(folder.join("config"), config).unwrap();
        let log = folder.join("log");
        let mut baresip = Command::new("stdbuf");
        baresip
            .args(["-oL", "baresip", "-4", "-v", "-f"])
            .arg(&folder);
        baresip.args(["-e", &format!("/uanew {account}")]);
        baresip.args(command.map(|it| ["-e", it]).into_iter().flatten());
        baresip.stdin(Stdio::null());
        baresip.stdout(File::create(&log).unwrap());
        baresip.stderr(Stdio::null());
        let process = Background(baresip.spawn().unwrap());
        Self { process, log }
    }

    fn until(&self, said: &str) {
        let log = || read(&self.log);
        until(said, || log().contains(said), log);
    }

    /// Hangs up and ends.
    fn end(mut self) {
        let pid = self.process.0.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert!(self.process.0.wait().unwrap().success());
    }
}

/// Returns the missing prerequisite; `None` if all are present.
fn missing() -> Option<&'static str> {
    let is_there = Path::new("/usr/bin/baresip").is_file() && Path::new(MODULES).is_dir();
    (!is_there).then_some("baresip (package baresip-core) is not installed")
}

#[test]
fn two_telephones_register_call_each_other_by_name_hear_sound_and_hang_up() {
    let test = "telephones::two_telephones_register_call_each_other_by_name_hear_sound_and_hang_up";
    let over_datagrams = "transport=udp";
    call(test, over_datagrams, over_datagrams);
}

#[test]
fn a_telephone_with_a_connection_is_called_over_it_by_one_with_datagrams() {
    let test = "telephones::a_telephone_with_a_connection_is_called_over_it_by_one_with_datagrams";
    call(test, "transport=udp", "transport=tcp");
}

#[test]
fn a_telephone_with_a_connection_calls_one_with_datagrams() {
    let test = "telephones::a_telephone_with_a_connection_calls_one_with_datagrams";
    call(test, "transport=tcp", "transport=udp");
}

/// Bob calls Alice and hangs up. Each of them speaks to the directory by a transport of its own.
fn call(test: &'static str, of_bob: &'static str, of_alice: &'static str) {
    if let Some(reason) = missing() {
        return hawser_skip::skip(&format!("end_to_end::{test}"), reason);
    }
    in_namespace(test, || {
        let (place, far) = (Place::new(), two_links());
        write_private(&place.path("users"), "alice:a\nbob:b\n");
        // It looks at the first challenge only.
        std::fs::write(place.path("config"), "[directory]\ndigests = [\"MD5\"]\n").unwrap();
        let mut serve = far.command(HAWSER);
        serve.arg("--state").arg(place.path("gateway"));
        serve.arg("--config").arg(place.path("config"));
        serve.args(["serve", "--listen", "10.99.0.1:7443"]);
        serve.args([
            "--directory",
            "10.99.0.1",
            "--directory-listen",
            "10.99.0.1:5060",
        ]);
        serve.arg("--directory-users").arg(place.path("users"));
        let gateway = place.launch_command("gateway", serve);
        let status = || place.status("gateway").unwrap_or_default();
        let is_ready = || !status()["directory"].is_null();
        until("the directory is ready", is_ready, || gateway.log());
        let alice = account("alice", "a", of_alice) + ";answermode=auto";
        let alice = Telephone::start(&place, "alice", &alice, "10.1.0.2:5070", None);
        let contacts = || status()["directory"]["bindings"].to_string();
        let is_registered = || contacts().contains("sip:alice");
        until("alice is registered", is_registered, || {
            contacts() + &read(&alice.log)
        });
        assert_eq!(
            contacts().contains(";transport=tcp"),
            of_alice.ends_with("tcp")
        );
        let bob = account("bob", "b", of_bob);
        let dial = Some("/dial sip:alice@10.99.0.1");
        let bob = Telephone::start(&place, "bob", &bob, "10.1.0.2:5080", dial);
        bob.until("Call established: sip:alice@10.99.0.1");
        alice.until("Call established: sip:bob@10.99.0.1");
        for telephone in [&alice, &bob] {
            telephone.until("incoming rtp for 'audio' established");
        }
        bob.end();
        alice.until("session closed");
        // INVITE and BYE; the ACK is no request with an answer.
        let forwarded = || status()["counters"]["directory-forwarded"].clone();
        let is_over = || forwarded() == 2;
        until("both went by the directory", is_over, || {
            forwarded().to_string()
        });
        alice.end();
    });
}

/// The account of a user, whose requests all go to the directory by this transport.
fn account(user: &str, password: &str, transport: &str) -> String {
    format!(
        "<sip:{user}@10.99.0.1;{transport}>;auth_pass={password};regint=600;\
         outbound=\"sip:10.99.0.1;{transport}\""
    )
}

const MODULES: &str = "/usr/lib/baresip/modules";
