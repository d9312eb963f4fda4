use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use hawser_sip::digest::{Answerer, Challenge};
use hawser_sip::framer::{Framed, Framer};
use hawser_sip::message::{HeaderName, Limits, Message, Method, Request, Response, StatusCode};
use hawser_sip::registrar::KeptBinding;
use hawser_sip::uri::Uri;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::testing::certificate;

/// A directory of example.org, whose user alice has the password `p`.
struct Stage {
    folder: tempfile::TempDir,
    server: Option<DirectoryServer>,
}

impl Stage {
    fn start(tls: Option<DirectoryTls>, connections: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, tls, connections)
    }

    fn start_in(folder: tempfile::TempDir, tls: Option<DirectoryTls>, connections: usize) -> Self {
        let mut stage = Self {
            folder,
            server: None,
        };
        let users = stage.folder.path().join("users");
        std::fs::write(&users, "alice:p\n").unwrap();
        std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
        let domains: Vec<Host> = vec!["example.org".parse().unwrap()];
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let settings = DirectorySettings {
            users: UserFile::open(&users, &domains).unwrap(),
            domains,
            listen: vec![any],
            tls: tls.map(|tls| (vec![any], tls)),
            table: BindingTable::open(&stage.folder.path().join("directory.db")).unwrap(),
            seed: [7; 32],
            digests: vec![Algorithm::Sha256],
            limits: DirectoryLimits {
                addresses: 10,
                requests_per_second: 100,
                connections,
            },
            policy: DestinationPolicy::new(Vec::new(), |_| false),
        };
        stage.server = Some(DirectoryServer::start(settings).unwrap());
        stage
    }

    fn server(&self) -> &DirectoryServer {
        self.server.as_ref().unwrap()
    }
}

#[test]
fn what_ended_while_it_was_away_is_kept_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory.db");
    let mut table = BindingTable::open(&path).unwrap();
    let binding = |contact: String, expires_unix_ms| KeptBinding {
        contact,
        q: 1000,
        expires_unix_ms,
        updated_unix_ms: 1,
        call_id: "1".to_owned(),
        cseq: 1,
        path: String::new(),
        outbound: None,
        source: None,
    };
    // These times fit the clock of any machine that runs this test.
    let (ended, lasts) = (2, u64::MAX >> 1);
    let mut kept = vec![
        (
            "sip:alice@example.org".to_owned(),
            vec![
                binding("<sip:alice@192.0.2.1>".to_owned(), lasts),
                binding("<sip:alice@192.0.2.2>".to_owned(), ended),
            ],
        ),
        (
            "sip:nobody@example.org".to_owned(),
            vec![binding("<sip:nobody@192.0.2.1>".to_owned(), lasts)],
        ),
    ];
    let long = "x".repeat(400);
    kept.extend((0..1000).map(|number| {
        let contact = format!("<sip:{long}@192.0.2.1>");
        let address = format!("sip:{number}@example.org");
        (address, vec![binding(contact, ended)])
    }));
    table.keep(&kept).unwrap();
    drop(table);
    let size = || std::fs::metadata(&path).unwrap().len();
    let before = size();
    let mut stage = Stage::start_in(folder, None, 8);
    assert_eq!(stage.server().view(0).bindings, 1);
    stage.server = None;
    let left = BindingTable::open(&path).unwrap().load().unwrap();
    let addresses: Vec<_> = left.keys().collect();
    assert_eq!(addresses, ["sip:alice@example.org"]);
    assert!(size() < before / 4, "{} of {before} bytes", size());
}

fn register(number: u32) -> Request {
    let uri: Uri = "sip:example.org".parse().unwrap();
    let mut request = Request::new(Method::Register, uri);
    let headers = &mut request.headers;
    headers.push(
        HeaderName::Via,
        format!("SIP/2.0/TCP h;branch=z9hG4bK{number};rport"),
    );
    headers.push(HeaderName::MaxForwards, 70);
    headers.push(HeaderName::From, "<sip:alice@example.org>;tag=1");
    headers.push(HeaderName::To, "<sip:alice@example.org>");
    headers.push(HeaderName::CallId, "1");
    headers.push(HeaderName::CSeq, format!("{number} REGISTER"));
    headers.push(HeaderName::Contact, "<sip:alice@192.0.2.1>;q=0.5");
    request
}

async fn answer(stream: &mut (impl AsyncRead + Unpin), framer: &mut Framer) -> Response {
    let mut buffer = [0; 4096];
    loop {
        match framer.poll() {
            Some(Framed::Message(Message::Response(response))) => return response,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(length > 0, "the directory has closed");
        framer.push(&buffer[..length]);
    }
}

/// Registers alice over a stream.
async fn registers(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut framer = Framer::new(Limits::default());
    stream.write_all(&register(1).to_bytes()).await.unwrap();
    let asked = answer(&mut stream, &mut framer).await;
    assert_eq!(asked.status, StatusCode::UNAUTHORIZED);
    let challenge = asked
        .headers
        .raw(&HeaderName::WwwAuthenticate)
        .next()
        .unwrap();
    let mut answerer = Answerer::new("alice", "p", Algorithm::Sha256);
    let challenges = [Challenge::parse(challenge).unwrap()];
    answerer.handle_challenges(&challenges).unwrap();
    let mut proven = register(2);
    let proof = answerer.credentials(&Method::Register, "sip:example.org", "c");
    proven
        .headers
        .push(HeaderName::Authorization, proof.unwrap());
    stream.write_all(&proven.to_bytes()).await.unwrap();
    let accepted = answer(&mut stream, &mut framer).await;
    assert_eq!(accepted.status, StatusCode::OK, "{}", accepted.reason());
    stream.write_all(b"\r\n\r\n").await.unwrap();
    let mut pong = [0; 2];
    stream.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"\r\n");
}

#[tokio::test]
async fn a_user_registers_over_tcp() {
    let stage = Stage::start(None, 8);
    let to = stage.server().bound().listen[0];
    registers(TcpStream::connect(to).await.unwrap()).await;
    let view = stage.server().view(10);
    assert_eq!((view.users, view.addresses, view.bindings), (1, 1, 1));
    assert_eq!(view.listed[0].contact, "sip:alice@192.0.2.1");
    assert_eq!(view.listed[0].q, 500);
}

#[tokio::test]
async fn a_user_registers_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let test = "directory::a_user_registers_over_tls";
    let Some([certificate, key]) = certificate(folder.path(), test) else {
        return;
    };
    let tls = DirectoryTls::read(&certificate, &key).unwrap();
    let stage = Stage::start(Some(tls), 8);
    let mut roots = rustls::RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(stage.server().bound().tls[0])
        .await
        .unwrap();
    let name = ServerName::try_from("example.org").unwrap();
    registers(connector.connect(name, stream).await.unwrap()).await;
    assert_eq!(stage.server().view(10).bindings, 1);
}

#[tokio::test]
async fn one_host_has_an_eighth_of_all_connections_and_others_are_closed() {
    let stage = Stage::start(None, 16);
    let to = stage.server().bound().listen[0];
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(TcpStream::connect(to).await.unwrap());
    }
    // Two connections are answered, the third is closed.
    for stream in &mut open[..2] {
        stream.write_all(b"\r\n\r\n").await.unwrap();
        let mut pong = [0; 2];
        stream.read_exact(&mut pong).await.unwrap();
    }
    let mut rest = Vec::new();
    let ended = open[2].read_to_end(&mut rest).await;
    assert!(ended.is_err() || rest.is_empty(), "{rest:?}");
    assert_eq!(stage.server().counts().streams_refused, 1);
    assert_eq!(stage.server().view(0).connections, 2);
}

#[test]
fn a_directory_ends_with_its_ports() {
    let stage = Stage::start(None, 8);
    let to = stage.server().bound().listen[0];
    let mut stream = std::net::TcpStream::connect(to).unwrap();
    drop(stage);
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.is_empty());
    std::net::TcpListener::bind(to).unwrap();
}
