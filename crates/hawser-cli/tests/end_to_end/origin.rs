//! A web server with one page of any size, and curl to read it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use super::program::Ended;

/// Serves `GET /N` with N bytes of a known pattern, until the test ends.
pub(crate) fn start() -> SocketAddr {
    start_at("127.0.0.1:0")
}

/// The same at an address of this thread's network namespace.
pub(crate) fn start_at(address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(stream: TcpStream) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    // A plain HTTP proxy may have left the whole address in place.
    let path = request.split(' ').nth(1).unwrap_or_default();
    let size = path.rsplit('/').next().and_then(|size| size.parse().ok());
    let body = page(size.unwrap_or(0));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = (&stream)
        .write_all(head.as_bytes())
        .and_then(|()| (&stream).write_all(&body));
}

/// Returns the content of the page with this size.
pub(crate) fn page(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at ^ (at >> 8)) as u8).collect()
}

/// Reads the page through a proxy such as `socks5h://127.0.0.1:1080`.
pub(crate) fn fetch(proxy: &str, origin: SocketAddr, size: usize) -> Result<Vec<u8>, Ended> {
    let url = format!("http://{origin}/{size}");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "30"])
        // What the machine's own settings say about proxies does not matter here.
        .args(["--noproxy", "", "--proxy", proxy, &url])
        .output()
        .expect("this test needs curl");
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Ended::of(output))
    }
}

/// The status that an HTTP proxy, such as `http://127.0.0.1:1080`, answers with; 0 for none.
pub(crate) fn status_of(proxy: &str, url: &str) -> u16 {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "30", "--output", "/dev/null"])
        .args(["--write-out", "%{http_code}", "--noproxy", "", "--proxy"])
        .args([proxy, url])
        .output()
        .expect("this test needs curl");
    let text = String::from_utf8_lossy(&output.stdout);
    text.parse().unwrap_or(0)
}

/// Whether there is no curl here; says so, for the runner to count the test as skipped.
pub(crate) fn is_without_curl(test: &str) -> bool {
    if Command::new("curl").arg("--version").output().is_ok() {
        return false;
    }
    hawser_skip::skip(&format!("end_to_end::{test}"), "no curl here");
    true
}
