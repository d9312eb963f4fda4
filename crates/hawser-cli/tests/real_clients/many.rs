//! Many short connections.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::clients::{Rope, is_without, noise};
use super::nginx::Nginx;
use super::program::{Place, read, until};

/// `HAWSER_SHORT_CONNECTIONS=10000/200` makes 10,000, 200 at once.
#[test]
fn short_connections_all_succeed_and_leave_nothing_behind() {
    let test = "short_connections_all_succeed_and_leave_nothing_behind";
    if is_without(&["nginx"], test) {
        return;
    }
    let (count, at_once) = asked();
    let place = Place::new();
    let (nginx, rope) = (Nginx::start(&place), Rope::start(&place));
    let page = noise(3, PAGE);
    nginx.put("page", &page);
    let read_pages = |count| fetch_all(count, at_once, &rope.proxy, nginx.address, &page);

    // As many at once as later, so that what is kept for the next connections is there already.
    read_pages(2 * at_once);
    let daemons = ["gateway", "client"].map(|state| Process::find(&place, state));
    let before = daemons.each_ref().map(Process::open_files);
    let warm = daemons.each_ref().map(Process::resident);
    read_pages(count);
    for ((daemon, before), warm) in daemons.iter().zip(before).zip(warm) {
        let resident = daemon.resident();
        println!(
            "{count} connections, {at_once} at once: {} has {} kB resident, {} kB before",
            daemon.state,
            resident / 1000,
            warm / 1000
        );
        assert!(resident < MAX_RESIDENT, "{}: {resident}", daemon.state);
        assert!(
            resident < warm + MAX_GROWTH,
            "{}: {warm}, later {resident}",
            daemon.state
        );
        until(
            "files are closed",
            || daemon.open_files() <= before + SPARE_FILES,
            || format!("{}: {before}, later {}", daemon.state, daemon.open_files()),
        );
    }
    let total = u64::try_from(count + 2 * at_once).unwrap();
    assert_eq!(rope.connected(&place), total);
    rope.end();
}

fn asked() -> (usize, usize) {
    let Ok(text) = std::env::var("HAWSER_SHORT_CONNECTIONS") else {
        return (2_000, 100);
    };
    let parse = |(count, at_once): (&str, &str)| Some((count.parse().ok()?, at_once.parse().ok()?));
    text.split_once('/')
        .and_then(parse)
        .unwrap_or_else(|| panic!("HAWSER_SHORT_CONNECTIONS is COUNT/AT_ONCE, not {text}"))
}

/// Reads the page this often; fails if any attempt does.
fn fetch_all(count: usize, at_once: usize, proxy: &str, origin: SocketAddr, page: &[u8]) {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    match fetch(proxy, origin) {
                        Ok(got) if got == page => {}
                        Ok(got) => failed.lock().unwrap().push(format!("{} bytes", got.len())),
                        Err(error) => failed.lock().unwrap().push(error.to_string()),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let first = failed.first();
    assert!(failed.is_empty(), "{} of {count}: {first:?}", failed.len());
}

/// Reads the page on a connection of its own, by SOCKS5.
fn fetch(proxy: &str, origin: SocketAddr) -> std::io::Result<Vec<u8>> {
    let SocketAddr::V4(origin) = origin else {
        panic!("{origin} is not an IPv4 address");
    };
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[5, 1, 0])?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice)?;
    stream.write_all(&socks_connect(origin))?;
    let mut reply = [0; 10];
    stream.read_exact(&mut reply)?;
    if choice != [5, 0] || reply[..2] != [5, 0] {
        return Err(std::io::Error::other(format!("{choice:?} {reply:?}")));
    }
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
    Ok(answer.split_off(head.map_or(0, |at| at + 4)))
}

fn socks_connect(origin: SocketAddrV4) -> Vec<u8> {
    let mut request = vec![5, 1, 0, 1];
    request.extend(origin.ip().octets());
    request.extend(origin.port().to_be_bytes());
    request
}

/// A daemon in the kernel's view.
struct Process {
    state: String,
    folder: std::path::PathBuf,
}

impl Process {
    /// Finds the daemon by its state directory, which no other process names.
    fn find(place: &Place, state: &str) -> Self {
        let path = place.path(state);
        let folder = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .find(|folder| {
                let line = read(&folder.join("cmdline"));
                line.split('\0').any(|word| path.as_os_str() == word)
            });
        Self {
            state: state.to_owned(),
            folder: folder.unwrap(),
        }
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(self.folder.join("fd")).unwrap().count()
    }

    /// Bytes of memory in use.
    fn resident(&self) -> u64 {
        let status = read(&self.folder.join("status"));
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes: Option<u64> =
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kibibytes.unwrap() * 1024
    }
}

const PAGE: usize = 3_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Generous: this is a debug build.
const MAX_RESIDENT: u64 = 200_000_000;
const MAX_GROWTH: u64 = 20_000_000;
/// Channels are opened and closed independently.
const SPARE_FILES: usize = 16;
