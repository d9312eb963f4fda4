//! Two clients of one gateway, over loopback; every line goes to a list as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hawser_keys::identity::Identity;
use hawser_link::links::Link;
use hawser_session::SessionConfig;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;
use crate::client::Client;
use crate::client::ClientConfig;
use crate::gateway::{AcceptLimits, Admission, Gateway, GatewayConfig};

/// Admits clients under these names.
struct Named(BTreeMap<PublicKey, &'static str>);

impl Admission for Named {
    fn admits(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key)
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key)
    }

    fn name(&self, key: &PublicKey) -> Option<String> {
        Some((*self.0.get(key)?).to_owned())
    }

    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Err("there are no invites".to_owned())
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of the log.
struct Line {
    message: String,
    spans: Vec<Value>,
}

impl Log {
    fn lines(&self) -> Vec<Line> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = |text: &str| {
            let json: Value = serde_json::from_str(text).unwrap();
            Line {
                message: json["fields"]["message"].as_str().unwrap_or("").to_owned(),
                spans: json["spans"].as_array().cloned().unwrap_or_default(),
            }
        };
        text.lines().map(line).collect()
    }

    /// Sessions, with what encloses each, in which one end has logged `message`.
    fn sessions(&self, end: &str, message: &str) -> BTreeMap<String, String> {
        let lines = self.lines().into_iter();
        let lines = lines.filter(|line| line.message == message);
        lines
            .filter(|line| line.field("session", "end") == end)
            .map(|line| {
                let around = line.field("client", "id") + &line.field("peer", "host");
                (line.field("session", "id"), around)
            })
            .collect()
    }
}

impl Line {
    /// A field of the line's span with this name; empty if it has none.
    fn field(&self, span: &str, field: &str) -> String {
        let span = self.spans.iter().find(|it| it["name"] == span);
        let text = span.and_then(|it| it[field].as_str());
        text.unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn lines_of_two_sessions_carry_their_own_session_and_client() {
    let log = Log::default();
    let (writer, level) = (log.clone(), LevelFilter::DEBUG);
    let json = tracing_subscriber::fmt().json().with_max_level(level);
    let json = json.with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(json);
    let identities = [2, 3].map(|seed| Identity::from_seed([seed; 32]));
    let keys = identities.each_ref().map(Identity::public);
    let named = Named(keys.into_iter().zip(["ann", "bob"]).collect());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = HostPort::try_from(listener.local_addr().unwrap()).unwrap();
    let config = GatewayConfig {
        identity: Identity::from_seed([1; 32]),
        session: SessionConfig::default(),
        limits: AcceptLimits::default(),
        congestion: None,
        predecessor: None,
    };
    let key = config.identity.public();
    let gateway = Gateway::start(config, vec![listener], Arc::new(named)).unwrap();
    let (_links, links) =
        watch::channel(Arc::new(vec![Link::loopback(Ipv4Addr::LOCALHOST.into())]));
    let mut expected = BTreeMap::new();
    let mut clients = Vec::new();
    for (identity, name) in identities.into_iter().zip(["ann", "bob"]) {
        let config = ClientConfig::new(identity, key, vec![at.clone()]);
        let client = Client::start(config, links.clone());
        client.connected(PATIENCE).await.unwrap();
        expected.insert(client.sessions()[0].id().to_string(), name.to_owned());
        let opening = Bytes::from([&[StreamKind::Sink.number()][..], name.as_bytes()].concat());
        let _stream = client.open(opening).await.unwrap();
        let incoming = tokio::time::timeout(PATIENCE, gateway.accept()).await;
        let span = incoming.unwrap().unwrap().stream.span();
        span.in_scope(|| tracing::debug!("a stream has come"));
        clients.push(client);
    }
    // Each link has a second channel by then.
    let joined = || {
        let lines = log.lines().into_iter();
        lines
            .filter(|line| line.message == "joined the session")
            .count()
            >= 2
    };
    until(joined).await;
    // The gateway's reading tasks, which are not instrumented, see the connections end.
    drop(clients);
    until(|| log.sessions("gateway", "the connection ended").len() == 2).await;
    drop(gateway);
    until(|| log.sessions("gateway", "the session is over").len() == 2).await;

    for message in [
        "a session has begun",
        "the connection ended",
        "the session is over",
        "a stream has come",
    ] {
        assert_eq!(log.sessions("gateway", message), expected, "{message}");
    }
    let of_clients = log.sessions("client", "a session with the gateway has begun");
    assert!(of_clients.keys().eq(expected.keys()), "{of_clients:?}");
    assert!(of_clients.values().all(|host| host == "127.0.0.1"));
    for line in log.lines() {
        let (session, client) = (line.field("session", "id"), line.field("client", "id"));
        if line.field("session", "end") == "gateway" {
            assert_eq!(expected.get(&session), Some(&client), "{}", line.message);
        }
        match line.message.as_str() {
            "joined the session" => assert_eq!(line.field("link", "interface"), "lo"),
            "a stream has come" => assert_eq!(line.field("stream", "kind"), "Sink"),
            _ => {}
        }
    }
}

async fn until(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("soon");
}

const PATIENCE: Duration = Duration::from_secs(30);
