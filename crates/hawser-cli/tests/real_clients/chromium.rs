//! A real browser with one page, driven through its debugging pipe.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::clients::Family;
use super::network::Namespace;
use super::program::{Place, read};

/// Chromium without a window; it is killed when dropped.
pub(crate) struct Chromium {
    _family: Family,
    to: File,
    from: Receiver<Value>,
    /// Unsolicited messages of the page.
    events: Vec<Value>,
    session: Option<String>,
    latest_id: u64,
    log: std::path::PathBuf,
}

impl Chromium {
    /// Starts it in a network, with an empty page.
    pub(crate) fn start(place: &Place, network: &Namespace) -> Self {
        let [to, from] = ["to-chromium", "from-chromium"].map(|name| place.path(name));
        let made = Command::new("mkfifo").args([&to, &from]).status();
        assert!(made.unwrap().success());
        // It reads commands from descriptor 3 and writes answers to 4.
        let script = "to=$1 from=$2; shift 2; exec \"$@\" 3<\"$to\" 4>\"$from\"";
        let log = place.path("chromium.log");
        let mut command = network.command("sh");
        command.args(["-c", script, "sh"]).args([&to, &from]);
        command.arg("chromium").args(ALONE).args(DRIVEN);
        command.arg(format!("--user-data-dir={}", place.path("user").display()));
        command
            .env("HOME", place.folder("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        let family = Family::start(&mut command);
        let mut chromium = Self {
            _family: family,
            // Opened for reading and writing, so that opening does not wait.
            to: OpenOptions::new().read(true).write(true).open(&to).unwrap(),
            from: messages(&from),
            events: Vec::new(),
            session: None,
            latest_id: 0,
            log,
        };
        chromium.attach();
        chromium
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", attach);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log", "Accessibility"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Asks the browser, and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.ask(method, parameters)
            .unwrap_or_else(|refusal| panic!("{method}: {refusal}"))
    }

    /// As [`Self::call`]; an error is the browser's message instead of an answer.
    fn ask(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.latest_id += 1;
        let mut message = json!({ "id": self.latest_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let Ok(mut answer) = self.from.recv_timeout(PATIENCE) else {
                panic!("no answer to {message}: {}", read(&self.log));
            };
            if answer["id"] != self.latest_id {
                self.events.push(answer);
                continue;
            }
            return match answer["error"].take() {
                Value::Null => Ok(answer["result"].take()),
                error => Err(json!({ "to": message, "error": error })),
            };
        }
    }

    /// Returns the value of an expression in the page; of a promise, its result.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let options = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let mut answer = self.call("Runtime.evaluate", options);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// True if an expression is true in the page; false where the page is just being left.
    pub(crate) fn holds(&mut self, expression: &str) -> bool {
        let options = json!({ "expression": expression, "returnByValue": true });
        match self.ask("Runtime.evaluate", options) {
            Ok(answer) => answer["result"]["value"] == true,
            Err(refusal) => {
                let is_left = refusal["error"]["message"] == PAGE_LEFT;
                assert!(is_left, "{refusal}");
                false
            }
        }
    }

    /// Returns the value of an expression in the page, as text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Goes to a page.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// Returns the page's messages of this kind so far, such as `Network.loadingFinished`.
    pub(crate) fn events(&mut self, method: &str) -> Vec<Value> {
        self.events.extend(self.from.try_iter());
        let of_kind = self.events.iter().filter(|event| event["method"] == method);
        of_kind.map(|event| event["params"].clone()).collect()
    }

    /// Presses and releases a key: one with a name, or a letter.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            " " => (32, " "),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowLeft" => (37, ""),
            "ArrowDown" => (40, ""),
            letter => (i32::from(letter.as_bytes()[0].to_ascii_uppercase()), letter),
        };
        let key = json!({ "key": key, "code": key, "windowsVirtualKeyCode": code });
        for kind in ["keyDown", "keyUp"] {
            let mut event = key.clone();
            event["type"] = kind.into();
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The size of the window, and whether it prefers `light` or `dark`.
    pub(crate) fn show_as(&mut self, (width, height): (u32, u32), scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [scheme] }),
        );
    }

    /// A picture of what the window shows, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let options = json!({ "format": "png", "optimizeForSpeed": false });
        let picture = self.call("Page.captureScreenshot", options);
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }
}

/// Returns the messages from the pipe, each ended by a zero byte, until the browser is gone.
fn messages(from: &Path) -> Receiver<Value> {
    let (sender, receiver) = channel();
    let from = from.to_owned();
    std::thread::spawn(move || {
        let pipe = BufReader::new(File::open(from).unwrap());
        for message in pipe.split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&message) else {
                return;
            };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Isolated in the test's sandbox (root may not use Chromium's), and silent except for the page.
pub(crate) const ALONE: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
];
const DRIVEN: [&str; 3] = [
    "--remote-debugging-pipe",
    "--no-proxy-server",
    "--hide-scrollbars",
];
const PATIENCE: Duration = Duration::from_secs(60);
/// Message of the browser when a page closes during a request.
const PAGE_LEFT: &str = "Inspected target navigated or closed";
