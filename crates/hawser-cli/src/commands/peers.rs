//! `hawser peers`: the hosts that are known by name, and the gateway's clients. Works whether a
//! daemon runs or not.

use std::time::Duration;

use hawser_control::PeerStatus;
use hawser_keys::identity::PublicKey;
use hawser_keys::invite::read_reference;
use hawser_keys::store::{ClientStore, GatewayStore, NameStore, NamedPeer, Peer, StateDir};
use hawser_keys::unix_time::UnixTime;
use hawser_types::HostNameAt;
use serde_json::{Value, json};

use crate::args::{KeySource, PeersAction, PeersArgs, Removed};
use crate::client::status;
use crate::commands::invite::gateway_state;
use hawser_daemon::proxy::session::reference;
use hawser_daemon::setup::{Setup, Usage, show, show_json};

/// Lists the known hosts and clients, or changes them.
pub(crate) async fn peers(setup: &Setup, args: &PeersArgs) -> anyhow::Result<()> {
    let state = &setup.state;
    match &args.action {
        Some(PeersAction::Revoke { key }) => {
            revoke(&GatewayStore::open(gateway_state(setup)?)?, *key)
        }
        Some(PeersAction::Add {
            name,
            key,
            trust_first,
        }) => add(state, name, key.as_ref(), *trust_first),
        Some(PeersAction::Remove { peer }) => remove(state, peer),
        Some(PeersAction::Key) => show(&format!("{}\n", own_key(state)?)),
        Some(PeersAction::List(table)) => list(setup, table.json).await,
        None => list(setup, args.table.json).await,
    }
}

fn add(
    state: &StateDir,
    name: &HostNameAt,
    key: Option<&KeySource>,
    trust_first: bool,
) -> anyhow::Result<()> {
    let key = match key {
        Some(KeySource::Key(key)) => Some(*key),
        Some(KeySource::Invite(invite)) => Some(read_reference(&reference(invite))?.gateway()),
        None if trust_first => None,
        None => {
            let problem = format!(
                "the key of {name} is missing: give the key that `hawser peers key` prints there, or \
                 an invite of that host; or trust the directory once with --trust-first"
            );
            return Err(Usage(problem).into());
        }
    };
    let own = own_key(state)?;
    if key == Some(own) {
        return Err(Usage(format!("{own} is the key of this host itself")).into());
    }
    NameStore::open(state)?.add(name, key)?;
    let host = name.host_name().map(|host| host.to_string());
    show(&format!(
        "added {name}; programs reach it as {}; add this host there with the key {own}\n",
        host.unwrap_or_default()
    ))
}

fn remove(state: &StateDir, peer: &Removed) -> anyhow::Result<()> {
    let known = match peer {
        Removed::Name(name) => {
            NameStore::open(state)?.remove(name)?;
            name.to_string()
        }
        Removed::Key(key) => {
            let is_known = ClientStore::open(state)?.forget(key)?;
            anyhow::ensure!(
                is_known,
                "this host has enrolled with no peer that has the key {key}"
            );
            key.to_string()
        }
    };
    show(&format!("{known} is no longer known\n"))
}

fn own_key(state: &StateDir) -> anyhow::Result<PublicKey> {
    state.prepare()?;
    Ok(state.identity()?.public())
}

fn revoke(store: &GatewayStore, key: PublicKey) -> anyhow::Result<()> {
    let peer = store.revoke(key)?;
    let name = peer.name.map(|name| format!(" ({name})"));
    show(&format!(
        "revoked {key}{}; its sessions end within a second or two\n",
        name.unwrap_or_default()
    ))
}

async fn list(setup: &Setup, json: bool) -> anyhow::Result<()> {
    let names = NameStore::open(&setup.state)?.peers();
    let clients = match gateway_state(setup) {
        Ok(state) => clients(state).await?,
        Err(_) if !names.is_empty() => Vec::new(),
        Err(error) => return Err(error),
    };
    if json {
        let peers: Vec<_> = clients.into_iter().map(|(_, status)| status).collect();
        let names: Vec<Value> = names.iter().map(told).collect();
        return show_json(&json!({ "peers": peers, "names": names }));
    }
    if clients.is_empty() && names.is_empty() {
        return show("no client is enrolled\n");
    }
    show(&tables(&names, &clients))
}

/// Returns a gateway's clients, with their status.
async fn clients(state: &StateDir) -> anyhow::Result<Vec<(Peer, PeerStatus)>> {
    let running = status::ask(state, &status::ALL_SESSIONS)
        .await
        .unwrap_or_default();
    let sessions = running
        .map(|snapshot| snapshot.sessions)
        .unwrap_or_default();
    let now = UnixTime::now();
    let peers = GatewayStore::open(state)?.peers().into_iter();
    let with_status = |peer: Peer| {
        let key = peer.key.to_string();
        let open = sessions.iter().filter(|session| session.peer == key);
        let open = open.count();
        let status = PeerStatus {
            key,
            name: peer.name.clone(),
            enrolled_ago: Some(now.since(peer.enrolled_at)),
            seen_ago: (open > 0).then_some(Duration::ZERO),
            session_count: open as u64,
        };
        (peer, status)
    };
    Ok(peers.map(with_status).collect())
}

/// Returns a host that is known by name as JSON.
fn told(peer: &NamedPeer) -> Value {
    json!({
        "name": peer.name.to_string(),
        "host": peer.name.host_name().map(|host| host.to_string()),
        "key": peer.key.map(|key| key.to_string()),
        "trusted_first": peer.trusted_first,
    })
}

fn tables(names: &[NamedPeer], clients: &[(Peer, PeerStatus)]) -> String {
    let mut text = String::new();
    if !names.is_empty() {
        text.push_str(&format!("{:<43}  NAME\n", "KEY"));
    }
    for peer in names {
        let (key, name) = (peer.key.map(|key| key.to_string()), &peer.name);
        let how = if peer.trusted_first {
            " (its key was taken on trust)"
        } else {
            ""
        };
        let key = key.as_deref().unwrap_or("that of its first session");
        text.push_str(&format!("{key:<43}  {name}{how}\n"));
    }
    if !names.is_empty() && !clients.is_empty() {
        text.push('\n');
    }
    if !clients.is_empty() {
        text.push_str(&format!(
            "{:<43}  {:>8}  {:>8}  NAME\n",
            "KEY", "ENROLLED", "SESSIONS"
        ));
    }
    let now = UnixTime::now();
    for (peer, status) in clients {
        text.push_str(&row(peer, status, now));
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_forgotten_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().join("state"))).unwrap();
        let key = own_key(&state).unwrap();
        let store = ClientStore::open(&state).unwrap();
        store.remember_peer(key, &[], UnixTime::now()).unwrap();
        remove(&state, &Removed::Key(key)).unwrap();
        // A running daemon reads the list again.
        assert!(store.reload_if_changed().unwrap());
        assert!(store.gateways().is_empty());
        let again = remove(&state, &Removed::Key(key)).unwrap_err();
        assert!(again.to_string().contains("has enrolled with no peer"));
    }
}
