//! A web server of the current user's, in a folder of its own.

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::clients::find;
use super::network::Namespace;
use super::program::{Place, read, until};

/// nginx; it is killed when dropped.
pub(crate) struct Nginx {
    child: Child,
    folder: PathBuf,
    /// Its address.
    pub(crate) address: SocketAddr,
}

impl Nginx {
    /// Starts it, with files that clients may read in `www` and write in `www/upload`.
    pub(crate) fn start(place: &Place) -> Self {
        let folder = folder(place);
        let program = find("nginx").unwrap();
        // Another program may take a port between its choice and its use.
        let started = (0..PORTS).find_map(|_| {
            let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
            Self::try_start(&folder, address.unwrap(), "", Command::new(&program))
        });
        started.unwrap_or_else(|| panic!("nginx: {}", read(&folder.join("error.log"))))
    }

    /// Starts it in another network, where no other program takes its port.
    pub(crate) fn start_in(network: &Namespace, place: &Place, address: SocketAddr) -> Self {
        Self::start_with(network, place, address, "")
    }

    /// The same with further directives of its server.
    pub(crate) fn start_with(
        network: &Namespace,
        place: &Place,
        address: SocketAddr,
        directives: &str,
    ) -> Self {
        let folder = folder(place);
        let command = network.command(find("nginx").unwrap());
        let started = Self::try_start(&folder, address, directives, command);
        started.unwrap_or_else(|| panic!("nginx: {}", read(&folder.join("error.log"))))
    }

    fn try_start(
        folder: &Path,
        address: SocketAddr,
        directives: &str,
        mut command: Command,
    ) -> Option<Self> {
        let configuration = configuration(address, directives);
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let child = command
            .arg("-p")
            .arg(folder)
            .args(["-c", "nginx.conf", "-e", "error.log"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut nginx = Self {
            child,
            folder: folder.to_owned(),
            address,
        };
        // It writes its number once it listens.
        let ended = Cell::new(false);
        until(
            "nginx listens",
            || {
                ended.set(nginx.child.try_wait().unwrap().is_some());
                ended.get() || !read(&folder.join("pid")).is_empty()
            },
            || read(&folder.join("error.log")),
        );
        (!ended.get()).then_some(nginx)
    }

    /// Returns the path of this file in its folder.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join("www").join(file)
    }

    /// Puts a file there for clients to read.
    pub(crate) fn put(&self, file: &str, content: &[u8]) {
        std::fs::write(self.path(file), content).unwrap();
    }

    pub(crate) fn url(&self, file: &str) -> String {
        format!("http://{}/{file}", self.address)
    }

    /// Waits until the log has a line with all of `words`, and returns that line.
    pub(crate) fn logged(&self, words: &[&str]) -> String {
        let log = || read(&self.folder.join("access.log"));
        let mut found = None;
        until(
            &format!("a request with {words:?}"),
            || {
                found = log()
                    .lines()
                    .find(|line| words.iter().all(|word| line.contains(word)))
                    .map(str::to_owned);
                found.is_some()
            },
            log,
        );
        found.unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder that it runs in.
fn folder(place: &Place) -> PathBuf {
    for name in ["www/upload", "temp"] {
        place.folder(&format!("nginx/{name}"));
    }
    place.folder("nginx")
}

/// One process, which leaves nothing behind when it is killed.
fn configuration(address: SocketAddr, directives: &str) -> String {
    format!(
        r#"
daemon off;
master_process off;
pid pid;
events {{ worker_connections 2048; }}
http {{
    log_format words '"$request" $status $remote_addr $http_user_agent $proxy_protocol_addr';
    access_log access.log words;
    client_body_temp_path temp;
    proxy_temp_path temp;
    fastcgi_temp_path temp;
    uwsgi_temp_path temp;
    scgi_temp_path temp;
    client_max_body_size 100m;
    types {{ text/html html; image/svg+xml svg; text/javascript js; }}
    server {{
        listen {address} backlog=1024;
        {directives}
        root www;
        location /upload/ {{ dav_methods PUT; }}
    }}
}}
"#
    )
}

const PORTS: usize = 10;
