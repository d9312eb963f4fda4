//! `hawser invite` and `hawser peers`: the gateway's files, whether it runs or not.

use std::time::Duration;

use anyhow::{Context as _, bail};
use hawser_control::PeerStatus;
use hawser_net::host_port::HostPort;
use hawser_net::identity::PublicKey;
use hawser_net::store::{GatewayStore, Peer, StateDir};
use hawser_net::unix_time::UnixTime;

use crate::args::{InviteArgs, PeersAction, PeersArgs};
use crate::client::status;
use crate::daemon::gateway::door::{ADDRESSES, DEFAULT_TTL, new_invite};
use crate::setup::{Setup, show, show_json};

/// Makes an invite that carries the addresses that the last `hawser serve` has advertised.
pub(crate) fn invite(setup: &Setup, args: &InviteArgs) -> anyhow::Result<()> {
    let state = gateway_state(setup)?;
    let addresses = addresses(state)?;
    let store = GatewayStore::open(state)?;
    let ttl = args.ttl.unwrap_or(DEFAULT_TTL);
    let invite = new_invite(&store, state.identity()?.public(), addresses, ttl)?;
    show(&format!("{}\n", invite.to_line().as_str()))
}

/// Lists the peers, or strikes one off the list.
pub(crate) async fn peers(setup: &Setup, args: &PeersArgs) -> anyhow::Result<()> {
    let state = gateway_state(setup)?;
    let store = GatewayStore::open(state)?;
    match &args.action {
        Some(PeersAction::Revoke { key }) => revoke(&store, *key),
        None => list(state, &store, args.table.json).await,
    }
}

fn revoke(store: &GatewayStore, key: PublicKey) -> anyhow::Result<()> {
    let peer = store.revoke(key)?;
    let name = peer.name.map(|name| format!(" ({name})"));
    show(&format!(
        "revoked {key}{}; its sessions end within a second or two\n",
        name.unwrap_or_default()
    ))
}

async fn list(state: &StateDir, store: &GatewayStore, json: bool) -> anyhow::Result<()> {
    let running = status::ask(state, &status::ALL_SESSIONS)
        .await
        .unwrap_or_default();
    let sessions = running
        .map(|snapshot| snapshot.sessions)
        .unwrap_or_default();
    let now = UnixTime::now();
    let peers = store.peers();
    let statuses: Vec<PeerStatus> = peers
        .iter()
        .map(|peer| {
            let key = peer.key.to_string();
            let open = sessions
                .iter()
                .filter(|session| session.peer == key)
                .count();
            PeerStatus {
                key,
                name: peer.name.clone(),
                enrolled_ago: Some(now.since(peer.enrolled_at)),
                seen_ago: (open > 0).then_some(Duration::ZERO),
                session_count: open as u64,
            }
        })
        .collect();
    if json {
        return show_json(&serde_json::json!({ "peers": statuses }));
    }
    if peers.is_empty() {
        return show("no client is enrolled\n");
    }
    let mut text = format!(
        "{:<43}  {:>8}  {:>8}  NAME\n",
        "KEY", "ENROLLED", "SESSIONS"
    );
    for (peer, status) in peers.iter().zip(&statuses) {
        text.push_str(&row(peer, status, now));
    }
    show(&text)
}

fn row(peer: &Peer, status: &PeerStatus, now: UnixTime) -> String {
    let name = peer.name.as_deref().unwrap_or("-");
    let age = now.since(peer.enrolled_at).as_secs();
    let age = match age {
        0..120 => format!("{age}s ago"),
        120..7200 => format!("{}m ago", age / 60),
        7200..172_800 => format!("{}h ago", age / 3600),
        _ => format!("{}d ago", age / 86_400),
    };
    let (key, count) = (&status.key, status.session_count);
    format!("{key:<43}  {age:>8}  {count:>8}  {name}\n")
}

/// The state directory, if a gateway has ever run there.
fn gateway_state(setup: &Setup) -> anyhow::Result<&StateDir> {
    let state = &setup.state;
    if !state.file(ADDRESSES).exists() {
        bail!(
            "no gateway has run in {} yet; start `hawser serve` there first, or say where its \
             state is with --state DIR",
            state.path().display()
        );
    }
    Ok(state)
}

fn addresses(state: &StateDir) -> anyhow::Result<Vec<HostPort>> {
    let path = state.file(ADDRESSES);
    let read =
        || -> anyhow::Result<Vec<HostPort>> { Ok(serde_json::from_slice(&std::fs::read(&path)?)?) };
    read().with_context(|| {
        format!(
            "can't read {}, which `hawser serve` writes when it starts",
            path.display()
        )
    })
}
