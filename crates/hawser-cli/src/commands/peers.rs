//! `hawser peers`: the gateway's clients, whether it runs or not.

use std::time::Duration;

use hawser_control::PeerStatus;
use hawser_net::identity::PublicKey;
use hawser_net::store::{GatewayStore, Peer, StateDir};
use hawser_net::unix_time::UnixTime;

use crate::args::{PeersAction, PeersArgs};
use crate::client::status;
use crate::commands::invite::gateway_state;
use crate::setup::{Setup, show, show_json};

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
