//! A client with two links, its gateway, a web server behind that, and a browser at the dashboard.

use std::cell::RefCell;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::LIVE;
use crate::chromium::Chromium;
use crate::clients::{Family, find, is_without, noise};
use crate::network::{SERVER, TwoLinks};
use crate::nginx::Nginx;
use crate::program::{Daemon, Place, until};

/// Everything that a test of the dashboard needs, with the page open and live.
pub(super) struct Stage {
    pub(super) page: Chromium,
    /// The dashboard's address, with the token in it.
    pub(super) url: String,
    up: Option<Daemon>,
    gateway: Daemon,
    nginx: Nginx,
    network: TwoLinks,
    pub(super) place: Place,
}

impl Stage {
    /// `None`, with a report, if the machine lacks something.
    pub(super) fn new(test: &str) -> Option<Self> {
        if is_without(&["chromium", "curl", "ip", "nginx", "nsenter", "tc"], test) {
            return None;
        }
        let network = TwoLinks::named(test, ["dsl", "lte"])?;
        network.shape([24, 8]);
        let place = Place::new();
        let nginx = Nginx::start_in(
            &network.server,
            &place,
            format!("{SERVER}:80").parse().unwrap(),
        );
        std::fs::write(place.path(CONFIG), REMARK).unwrap();
        let gateway = serve(&network, &place);
        let up = connect(&network, &place, &["--gateway", &place.invite()]);
        let url = url(&place, "client", &up);
        let page = Chromium::start(&place, &network.client);
        let up = Some(up);
        let mut stage = Self {
            page,
            url,
            up,
            gateway,
            nginx,
            network,
            place,
        };
        stage.page.open(&stage.url);
        stage.wait_for("the page is live", LIVE);
        Some(stage)
    }

    /// Where the dashboard is, without the token.
    pub(super) fn origin(&self) -> &str {
        self.url.split_once('#').unwrap().0
    }

    /// Waits until an expression is true in the page.
    pub(super) fn wait_for(&mut self, what: &str, expression: &str) {
        // Between two pages there may be nothing yet to ask for it.
        let tried =
            format!("(() => {{ try {{ return {expression} }} catch {{ return false }} }})()");
        let log = self.log();
        let page = RefCell::new(&mut self.page);
        until(
            what,
            || page.borrow_mut().holds(&tried),
            || {
                let mut page = page.borrow_mut();
                let text = page.text("document.body.innerText");
                let faults = FAULTS.map(|kind| page.events(kind));
                format!("{text}\n{faults:?}\n{log}")
            },
        );
    }

    /// Returns the content of the daemon's configuration.
    pub(super) fn config(&self) -> String {
        let config = std::fs::read_to_string(self.place.path(CONFIG)).unwrap();
        assert!(config.contains(REMARK), "{config}");
        config
    }

    /// What `hawser status` says.
    pub(super) fn status(&self) -> Value {
        self.place.status("client").unwrap()
    }

    /// Starts a download over the gateway, by a program of this name.
    pub(super) fn download(&self, program: &str) -> Family {
        let curl = self.place.folder("programs").join(program);
        symlink(find("curl").unwrap(), &curl).unwrap();
        let file = self.place.path(FILE);
        self.curl(&curl, &["--output", file.to_str().unwrap(), &self.file()])
    }

    /// Starts this many downloads of the same file, and drops the data.
    pub(super) fn downloads(&self, times: u32) -> Family {
        let urls = format!("{}?[1-{times}]", self.file());
        self.curl("curl".as_ref(), &["--output", "/dev/null", &urls])
    }

    /// Begins to upload the same file, at a rate that curl understands.
    pub(super) fn upload(&self, rate: &str) -> Family {
        self.file();
        let (file, url) = (self.nginx.path(FILE), self.nginx.url("upload/file"));
        let file = file.to_str().unwrap();
        self.curl(
            "curl".as_ref(),
            &["--limit-rate", rate, "--upload-file", file, &url],
        )
    }

    /// Where the web server has the file.
    fn file(&self) -> String {
        if !self.nginx.path(FILE).exists() {
            self.nginx.put(FILE, &noise(SEED, SIZE));
        }
        self.nginx.url(FILE)
    }

    fn curl(&self, program: &Path, arguments: &[&str]) -> Family {
        let mut curl = self.network.client.command(program);
        curl.args([
            "--silent",
            "--fail",
            "--proxy",
            &format!("socks5h://{PROXY}"),
        ]);
        curl.args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Family::start(&mut curl)
    }

    /// Waits until a download has ended, with every byte as it should be.
    pub(super) fn finish(&self, download: &mut Family) {
        until("the download ends", || download.has_ended(), || self.log());
        assert!(download.end().success(), "{}", self.log());
        let got = std::fs::read(self.place.path(FILE)).unwrap();
        assert!(
            got == noise(SEED, SIZE),
            "{} bytes came, or others",
            got.len()
        );
    }

    /// Returns for how long more than a trickle still arrives on a link.
    pub(super) fn until_silent(&self, link: usize) -> Duration {
        let begun = Instant::now();
        let (mut last, mut bytes) = (begun, self.network.received()[link]);
        let is_silent = || {
            let (now, received) = (Instant::now(), self.network.received()[link]);
            if received > bytes + TRICKLE {
                (last, bytes) = (now, received);
            }
            now - last > Duration::from_secs(1)
        };
        until("the link is silent", is_silent, || self.log());
        last - begun
    }

    /// Checks that nothing in the current page prevents people from using it.
    pub(super) fn audit(&mut self, what: &str) {
        let found = self.page.eval(include_str!("audit.js"));
        assert_eq!(found, serde_json::json!([]), "{what}");
        super::looks::names_in_the_tree(&mut self.page, what);
    }

    /// Checks that no script failed, and no forbidden resource was requested.
    pub(super) fn unharmed(&mut self) {
        let failed = self.page.events("Runtime.exceptionThrown");
        assert!(failed.is_empty(), "{failed:?}");
        let written = self.page.events("Runtime.consoleAPICalled");
        assert!(written.is_empty(), "{written:?}");
        let refused = self.page.events("Log.entryAdded");
        assert!(refused.is_empty(), "{refused:?}");
    }

    /// Starts another program at the dashboard's address, which behaves like the daemon, but does
    /// not know the token.
    pub(super) fn imposter(&self) -> Daemon {
        let mut hawser = self.network.client.command(env!("CARGO_BIN_EXE_hawser"));
        hawser.arg("--state").arg(self.place.path("imposter"));
        hawser.args(["up", "--listen", "127.0.0.1:1081", "--web", WEB]);
        self.place.launch_command("imposter", hawser)
    }

    /// Ends the client, and starts a gateway that has its dashboard at the same address.
    pub(super) fn become_gateway(&mut self) -> String {
        self.stop_up();
        let mut hawser = self.network.client.command(env!("CARGO_BIN_EXE_hawser"));
        hawser.arg("--state").arg(self.place.path("other"));
        hawser.args(["serve", "--listen", "127.0.0.1:7443", "--web", WEB]);
        let gateway = self.up.insert(self.place.launch_command("other", hawser));
        url(&self.place, "other", gateway)
    }

    pub(super) fn stop_up(&mut self) {
        self.up.take().unwrap().end();
    }

    pub(super) fn start_up(&mut self) {
        self.up = Some(connect(&self.network, &self.place, &[]));
    }

    fn log(&self) -> String {
        self.up.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// Ends both daemons in order.
    pub(super) fn end(mut self) {
        self.stop_up();
        self.gateway.end();
    }
}

fn serve(network: &TwoLinks, place: &Place) -> Daemon {
    let invite = place.path("invite");
    let (listen, allowed) = (format!("{SERVER}:7443"), format!("{SERVER}/32"));
    let arguments = [
        "serve",
        "--listen",
        &listen,
        "--allow-destination",
        &allowed,
    ];
    let mut hawser = network.server.command(env!("CARGO_BIN_EXE_hawser"));
    hawser
        .arg("--state")
        .arg(place.path("gateway"))
        .args(arguments);
    let gateway = place.launch_command("gateway", {
        hawser.arg("--invite-file").arg(&invite);
        hawser
    });
    until("an invite is written", || invite.exists(), || gateway.log());
    gateway
}

/// `hawser up` with its dashboard.
fn connect(network: &TwoLinks, place: &Place, further: &[&str]) -> Daemon {
    let mut hawser = network.client.command(env!("CARGO_BIN_EXE_hawser"));
    hawser.arg("--state").arg(place.path("client"));
    hawser.arg("--config").arg(place.path(CONFIG));
    hawser
        .args(["up", "--listen", PROXY, "--web", WEB])
        .args(further);
    let up = place.launch_command("client", hawser);
    until(
        "the daemon listens",
        || up.listen(place).is_some(),
        || up.log(),
    );
    up
}

/// Returns the output of `hawser web`.
fn url(place: &Place, state: &str, up: &Daemon) -> String {
    let mut ended = None;
    until(
        "the dashboard has an address",
        || ended.insert(place.run(state, &["web"])).code == 0,
        || up.log(),
    );
    ended.unwrap().out.trim().to_owned()
}

/// Messages of the browser about faults.
const FAULTS: [&str; 3] = [
    "Runtime.exceptionThrown",
    "Log.entryAdded",
    "Network.loadingFailed",
];
const PROXY: &str = "127.0.0.1:1080";
const WEB: &str = "127.0.0.1:7480";
const CONFIG: &str = "hawser.toml";
/// Content of the configuration before any change was saved.
const REMARK: &str = "# for the test\n";
const FILE: &str = "download";
const SEED: u64 = 7;
/// Ten seconds of both links.
const SIZE: usize = 40_000_000;
/// More than the traffic that keeps a link known to be alive.
const TRICKLE: u64 = 8_000;
