//! Kamailio with the configuration that is shipped.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hawser_sip::digest::Algorithm;
use hawser_skip::TestFolder;

/// A Kamailio process of one test, which ends with the test.
pub(crate) struct Kamailio {
    process: Child,
    /// The address where it listens, for datagrams and streams.
    pub(crate) address: SocketAddr,
    folder: TestFolder,
}

impl Kamailio {
    /// Starts Kamailio at this address, by the command that `run` makes of the program, with the
    /// users `alice` and `bob` whose passwords are `a` and `b`; `None` if it is not installed.
    pub(crate) fn start(
        algorithm: Algorithm,
        address: SocketAddr,
        run: impl FnOnce(&str) -> Command,
    ) -> Option<Self> {
        Self::start_with(algorithm, address, &[], run)
    }

    /// Starts Kamailio with more of the shipped files; returns `None` also if a required module is
    /// not installed.
    #[allow(dead_code, reason = "not all tests use it")]
    pub(crate) fn start_beside(
        algorithm: Algorithm,
        address: SocketAddr,
        beside: &Beside<'_>,
        run: impl FnOnce(&str) -> Command,
    ) -> Option<Self> {
        let mut folders = fs::read_dir("/usr/lib").ok()?.flatten();
        let module = Path::new("kamailio/modules").join(beside.module);
        let is_there = folders.any(|it| it.path().join(&module).is_file());
        is_there.then(|| Self::start_with(algorithm, address, &[beside], run))?
    }

    fn start_with(
        algorithm: Algorithm,
        address: SocketAddr,
        beside: &[&Beside<'_>],
        run: impl FnOnce(&str) -> Command,
    ) -> Option<Self> {
        let program = ["/usr/sbin/kamailio", "/usr/local/sbin/kamailio"]
            .into_iter()
            .find(|program| Path::new(program).is_file())?;
        let folder = TestFolder::new();
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/kamailio/");
        let main = folder.path().join("kamailio.cfg");
        fs::copy(format!("{shipped}kamailio.cfg"), &main).unwrap();
        let local = fs::read_to_string(format!("{shipped}local.cfg")).unwrap();
        let local = set_up(&local, address, algorithm);
        fs::write(folder.path().join("local.cfg"), local).unwrap();
        for other in beside {
            let text = fs::read_to_string(format!("{shipped}{}", other.file)).unwrap();
            fs::write(folder.path().join(other.file), other.set_up(text)).unwrap();
        }
        let log = fs::File::create(folder.path().join("kamailio.log")).unwrap();
        let mut command = run(program);
        command.arg("-f").arg(&main);
        // In the foreground, two processes, 32 MiB shared and 8 MiB private memory.
        command.args(["-DD", "-E", "-n", "1", "-m", "32", "-M", "8"]);
        command.arg("-Y").arg(folder.path());
        command.arg("-w").arg(folder.path());
        command.stdout(Stdio::null()).stderr(log);
        let process = command.spawn().unwrap();
        let kamailio = Self {
            process,
            address,
            folder,
        };
        kamailio.wait_until_it_listens();
        Some(kamailio)
    }

    fn wait_until_it_listens(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(self.address).is_err() {
            let log = fs::read_to_string(self.folder.path().join("kamailio.log")).unwrap();
            assert!(Instant::now() < end, "kamailio does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A shipped file beside the main one, and its changes.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) file: &'a str,
    /// The module that the file needs most.
    pub(crate) module: &'a str,
    /// Texts of the example, and their replacements.
    pub(crate) own: &'a [(&'a str, String)],
}

impl Beside<'_> {
    fn set_up(&self, mut text: String) -> String {
        for (example, own) in self.own {
            assert!(text.contains(example), "{example} is not in {text}");
            text = text.replace(example, own);
        }
        text
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // The main process ends its children on SIGTERM, and cannot on SIGKILL.
        let _ = Command::new("kill")
            .arg(self.process.id().to_string())
            .status();
        let _ = self.process.wait();
    }
}

/// Puts this test's address, algorithm and passwords into the shipped example.
fn set_up(local: &str, address: SocketAddr, algorithm: Algorithm) -> String {
    let example = format!("$sht(users=>alice) = \"{}\";", "0".repeat(64));
    assert!(local.contains(&example));
    let users = [("alice", "a"), ("bob", "b")].map(|(user, password)| {
        let hash = hash(&format!("{user}:example.org:{password}"), algorithm);
        format!("$sht(users=>{user}) = \"{hash}\";")
    });
    let set_up = local
        .replace("192.0.2.1:5060", &address.to_string())
        .replace("\"SHA-256\"", &format!("\"{}\"", algorithm.as_str()))
        .replace(&example, &users.join("\n    "));
    assert!(set_up.contains(&address.to_string()));
    set_up
}

fn hash(text: &str, algorithm: Algorithm) -> String {
    let sum = match algorithm {
        Algorithm::Sha256 => "sha256sum",
        Algorithm::Md5 => "md5sum",
    };
    let script = format!("printf '%s' '{text}' | {sum}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.split(' ').next().unwrap().to_owned()
}
