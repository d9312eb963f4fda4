use std::collections::BTreeSet;

use hawser_keys::identity::Identity;
use hawser_keys::store::{StateDir, VoucherStore};
use hawser_keys::unix_time::UnixTime;
use hawser_keys::voucher::{self, VouchedKeys, Voucher, VoucherError};
use hawser_sched::connection::ConnectionPolicy;
use hawser_seal::TlsServer;
use hawser_types::HostName;
use hawser_wire::dns::AddressRecord;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::fetch::{FetchError, fetch};
use super::shared::Held;
use super::*;
use crate::connection::SharedDirector;
use crate::root_certificates::RootCertificates;
use crate::testing::certificate;
use crate::this_machine::ThisMachine;
use crate::transport::DialError;

/// A host that holds `localhost` to the voucher that it has stored.
struct Scene {
    servers: VouchedServers,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(voucher: Option<Option<VouchedKeys>>) -> Self {
        let vouchers = voucher.into_iter().map(|it| (name(), it));
        Self::with(vec![name()], vouchers, 1)
    }

    /// As `new`, with these names, and servers that listen at this port.
    fn with(
        names: Vec<HostName>,
        vouchers: impl IntoIterator<Item = (HostName, Option<VouchedKeys>)>,
        port: u16,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let store = VoucherStore::open(&dir).unwrap();
        for (name, bonded) in vouchers {
            let span = voucher::DEFAULT_SPAN;
            let voucher = Voucher { bonded, span };
            store.keep(&name, &voucher, UnixTime::now()).unwrap();
        }
        let servers = VouchedServers::start(VouchedSettings {
            names,
            // No certificate is trusted, so nothing is ever fetched here.
            roots: RootCertificates::read(None).unwrap(),
            store,
            director: SharedDirector::new(ConnectionPolicy::Auto, Vec::new()),
            machine: ThisMachine::default(),
            port,
            start: Box::new(|_, _| None),
            rules: watch::channel(Arc::default()).1,
        });
        Self {
            servers,
            _folder: folder,
        }
    }

    fn watched(&self, name: &str) -> Arc<Watched> {
        self.servers.shared.named(name).unwrap()
    }

    /// Returns the error of a connection to this address and port 443, to which names lead.
    async fn connect_at(&self, at: &str, names: &[&str]) -> DialError {
        let names = names.iter().map(|it| self.watched(it)).collect();
        let at = Some(at.parse().unwrap());
        let origin = Origin::default();
        let judging = self.servers.shared.judge(Held { names, at }, 443, &origin);
        judging.await.unwrap().await.map(drop).unwrap_err()
    }

    fn refused(&self, name: &str) -> Option<String> {
        let mut names = self.servers.names().into_iter();
        names.find(|it| it.name.as_str() == name)?.refused
    }

    /// Returns the error for a connection; `None` where it goes as usual.
    async fn connect(&self, to: &str) -> Option<DialError> {
        let (destination, origin) = (to.parse().unwrap(), Origin::default());
        let dialing = self.servers.judge(&destination, &origin)?.await?;
        Some(dialing.await.map(drop).unwrap_err())
    }
}

fn name() -> HostName {
    "localhost".parse().unwrap()
}

fn keys() -> VouchedKeys {
    vouched(PublicKey::from_bytes([7; 32]), [443])
}

fn vouched(key: PublicKey, ports: impl IntoIterator<Item = u16>) -> VouchedKeys {
    VouchedKeys {
        keys: BTreeSet::from([key]),
        ports: ports.into_iter().collect(),
    }
}

/// Starts a server at 127.0.0.1 that proves this key; returns its port.
async fn proving(me: Identity) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = TlsServer::new(&me, Arc::new(|_| true)).unwrap();
            let _ = tls.handshake(stream, &[]).await;
        }
    });
    port
}

#[tokio::test]
async fn what_goes_to_an_address_is_for_a_server_there_and_the_name_whose_key_that_has() {
    let [mine, other] = [[7; 32], [8; 32]].map(Identity::from_seed);
    let port = proving(mine.clone()).await;
    let names = ["one.example", "two.example"];
    let vouchers = names.into_iter().zip([other.public(), mine.public()]);
    let vouchers = vouchers.map(|(name, key)| (name.parse().unwrap(), Some(vouched(key, [443]))));
    let parsed = names.map(|it| it.parse().unwrap());
    let scene = Scene::with(parsed.to_vec(), vouchers, port);

    // The second name's server is there, but this host makes no session with it.
    let connected = scene.connect_at("127.0.0.1", &names).await;
    assert_eq!(connected, DialError::GatewayUnavailable);
    assert_eq!(scene.refused(names[0]), None);
    let refused = scene.refused(names[1]).unwrap();
    assert!(refused.contains("there is no session"), "{refused}");
    // For the first name alone, it is another host.
    let connected = scene.connect_at("127.0.0.1", &names[..1]).await;
    assert_eq!(connected, DialError::RefusedByPolicy);
    let refused = scene.refused(names[0]).unwrap();
    assert!(refused.contains("the host proves the key"), "{refused}");
    // A server elsewhere does not count either, although it has proved its key.
    let connected = scene.connect_at("127.0.0.2", &names[1..]).await;
    assert_eq!(connected, DialError::ConnectionRefused);
    let refused = scene.refused(names[1]).unwrap();
    assert!(refused.contains("can't reach port"), "{refused}");
}

#[tokio::test]
async fn a_program_is_told_what_is_held_and_nothing_else() {
    let scene = Scene::new(Some(Some(keys())));
    let question = |name: &str, kind: u8| {
        let mut query = DnsQuestion::encode(7, &name.parse().unwrap(), AddressRecord::A);
        let at = query.len() - 3;
        query[at] = kind;
        query
    };
    let answer = |query: &[u8], kind: u8, data: &[u8]| {
        let mut message = query.to_vec();
        message[2] |= 0x80;
        message[7] = 1;
        message.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        message.extend(data);
        message
    };
    let told = async |name: &str, kinds: [u8; 2], data: &[u8]| {
        let query = question(name, kinds[0]);
        let answer = answer(&query, kinds[1], data);
        scene.servers.may_tell(&query, &answer).await
    };
    let [a, text, svcb, https] = [1, 16, 64, 65];
    assert!(told("localhost", [a, a], &[11, 0, 0, 1]).await);
    let (_, held) = scene.servers.held();
    assert_eq!(held, ["11.0.0.1:443".parse().unwrap()]);
    // This machine, an address that can't be read, and an address that was not asked for.
    assert!(!told("localhost", [a, a], &[127, 0, 0, 1]).await);
    assert!(!told("localhost", [a, a], &[11, 0, 0]).await);
    assert!(!told("localhost", [text, a], &[11, 0, 0, 2]).await);
    for kind in [svcb, https] {
        assert!(!told("localhost", [kind; 2], b"").await);
        assert!(!told("localhost", [a, kind], b"").await);
    }
    assert!(told("localhost", [text; 2], b"\x01x").await);
    assert!(told("www.example", [a, a], &[127, 0, 0, 1]).await);
    // An address of a name server is not told either.
    let server = "11.0.0.3".parse().unwrap();
    scene.servers.set_name_servers([server].into());
    assert!(!told("localhost", [a, a], &[11, 0, 0, 3]).await);
    assert_eq!(scene.servers.held().1, held);
}

#[tokio::test]
async fn the_ports_of_all_names_of_an_address_are_counted_together() {
    let (few, more) = (1..=5, 5..=9);
    let names = ["one.example", "two.example"].map(|it| it.parse::<HostName>().unwrap());
    let key = PublicKey::from_bytes([7; 32]);
    let ports = [few.clone(), more];
    let vouchers = names.iter().cloned().zip(ports);
    let vouchers = vouchers.map(|(name, ports)| (name, Some(vouched(key, ports))));
    let scene = Scene::with(names.to_vec(), vouchers, 1);
    let led = &scene.servers.shared.led;
    let held = |address: &str, ports: std::ops::RangeInclusive<u16>| -> Vec<SocketAddr> {
        let address = address.parse().unwrap();
        ports.map(|port| SocketAddr::new(address, port)).collect()
    };
    let address = "11.0.0.1";
    let noted = [address.parse().unwrap()];
    led.note(&scene.watched("one.example"), &noted).unwrap();
    assert_eq!(scene.servers.held().1, held(address, few));
    led.note(&scene.watched("two.example"), &noted).unwrap();
    // Together there are nine ports, more than are listed one by one.
    assert_eq!(scene.servers.held().1, held(address, 0..=0));
}

#[tokio::test]
async fn connections_to_vouched_ports_of_the_name_go_by_a_session_or_nowhere() {
    let scene = Scene::new(Some(Some(keys())));
    // Nothing listens there.
    let connected = scene.connect("localhost:443").await;
    assert_eq!(connected, Some(DialError::ConnectionRefused));
    let refused = scene.servers.names().remove(0).refused.unwrap();
    assert!(
        refused.starts_with("port 443: can't reach port 1 of the name"),
        "{refused}"
    );
    // Not every resolver knows the name with a final dot.
    assert!(scene.connect("localhost.:443").await.is_some());
    for to in ["localhost:444", "127.0.0.1:444", "www.localhost:443"] {
        assert_eq!(scene.connect(to).await, None, "{to}");
    }
    // The name has led there, but this machine's own addresses are never held.
    assert_eq!(scene.connect("127.0.0.1:443").await, None);
    assert!(scene.servers.held().1.is_empty());
}

#[tokio::test]
async fn without_a_voucher_everything_is_refused_and_with_one_that_says_none_nothing_is() {
    let scene = Scene::new(None);
    for to in ["localhost:443", "localhost:80"] {
        assert_eq!(scene.connect(to).await, Some(DialError::RefusedByPolicy));
    }
    let shown = scene.servers.names().remove(0);
    assert_eq!((shown.until, shown.is_bonded), (None, false));
    let refused = shown.refused.unwrap();
    assert!(
        refused.starts_with("port 80: the name's voucher is not known"),
        "{refused}"
    );

    let scene = Scene::new(Some(None));
    assert_eq!(scene.connect("localhost:443").await, None);
    let shown = scene.servers.names().remove(0);
    assert!(shown.until.is_some() && shown.refused.is_none() && shown.ports.is_empty());
}

/// Fetches the voucher of `name` from a web server of example.org that gives this answer.
async fn fetched(
    files: &[std::path::PathBuf; 2],
    name: &str,
    answer: &str,
) -> Result<Voucher, FetchError> {
    let [certificate, key] = files;
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, answer) = (listener.local_addr().unwrap(), answer.to_owned());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return;
        };
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(
            head.starts_with("GET /.well-known/hawser HTTP/1.1\r\n"),
            "{head}"
        );
        // A client that has read enough closes before the end.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    });
    let roots = RootCertificates::read(Some(certificate)).unwrap();
    let dialing = async {
        let stream = TcpStream::connect(at).await;
        stream.map_err(|error| DialError::from_io(&error))
    };
    fetch(&name.parse().unwrap(), &roots, dialing).await
}

#[tokio::test]
async fn a_voucher_is_fetched_from_the_name_and_nothing_else_is_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let test =
        "peer::vouched::a_voucher_is_fetched_from_the_name_and_nothing_else_is_taken_for_one";
    let Some(files) = certificate(folder.path(), test) else {
        return;
    };
    let good = "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nhawser 1\nnone\n";
    for name in ["example.org", "Example.Org."] {
        let voucher = fetched(&files, name, good).await.unwrap();
        assert_eq!(voucher.bonded, None);
    }
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   9\r\nhawser 1\n\r\n5\r\nnone\n\r\n0\r\n\r\n";
    assert!(fetched(&files, "example.org", chunked).await.is_ok());

    let other = fetched(&files, "example.com", good).await;
    assert!(matches!(other, Err(FetchError::Tls(_))), "{other:?}");
    let answer = |answer: &'static str| fetched(&files, "example.org", answer);
    let moved = "HTTP/1.1 301 Moved\r\nLocation: https://example.com/\r\n\r\n";
    let moved = answer(moved).await;
    assert!(
        matches!(moved, Err(FetchError::Status(status)) if status == 301),
        "{moved:?}"
    );
    let page = answer("HTTP/1.1 200 OK\r\n\r\n<!doctype html>").await;
    let is_first_line = matches!(page, Err(FetchError::Voucher(VoucherError::FirstLine)));
    assert!(is_first_line, "{page:?}");
    let cut = answer("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhawser 1\nnone\n").await;
    assert!(matches!(cut, Err(FetchError::Http(_))), "{cut:?}");
    let head = answer("SSH-2.0-x\r\n").await;
    assert!(matches!(head, Err(FetchError::Http(_))), "{head:?}");
    let endless = format!("HTTP/1.1 200 OK\r\n\r\nhawser 1\n{}", "#\n".repeat(100_000));
    let endless = fetched(&files, "example.org", &endless).await;
    let too_long = matches!(endless, Err(FetchError::Voucher(VoucherError::TooLong)));
    assert!(too_long, "{endless:?}");
    let heads = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let heads = fetched(&files, "example.org", &heads).await;
    assert!(matches!(heads, Err(FetchError::Http(_))), "{heads:?}");
}
