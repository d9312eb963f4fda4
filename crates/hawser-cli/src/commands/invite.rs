//! `hawser invite`: the gateway's invites. Works whether the gateway runs or not.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_keys::store::{GatewayStore, PendingInvite, StateDir};
use hawser_keys::unix_time::UnixTime;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use serde_json::{Value, json};

use crate::args::{InviteAction, InviteArgs};
use hawser_daemon::gateway::door::{
    ADDRESSES, DEFAULT_TTL, all_private, leads_nowhere, new_invite, told,
};
use hawser_daemon::gateway::found::with_found;
use hawser_daemon::setup::{Setup, show, show_json};

/// Makes an invite, lists them, or revokes one.
pub(crate) async fn invite(setup: &Setup, args: &InviteArgs) -> anyhow::Result<()> {
    let state = gateway_state(setup)?;
    let store = GatewayStore::open(state)?;
    match &args.action {
        None => make(state, &store, args).await,
        Some(InviteAction::List(table)) => list(&store, table.json),
        Some(InviteAction::Revoke { id }) => revoke(&store, *id),
    }
}

/// Makes an invite with the addresses of `--advertise`, or else those that the last `hawser serve`
/// has advertised, and with the addresses that their names resolve to.
async fn make(state: &StateDir, store: &GatewayStore, args: &InviteArgs) -> anyhow::Result<()> {
    let gateway = state.identity()?.public();
    let advertised = addresses(state)?;
    let addresses = if args.advertise.is_empty() {
        advertised
    } else {
        told(&args.advertise, advertised.first().map(HostPort::port))?
    };
    let addresses = with_found(&addresses).await;
    let ttl = args.ttl.unwrap_or(DEFAULT_TTL);
    let invite = new_invite(store, gateway, addresses, ttl)?;
    let line = invite.to_line();
    if args.qr {
        match in_dots(line.as_bytes()) {
            Ok(dots) => show(&dots)?,
            Err(error) => tracing::warn!("can't show the invite as a QR code: {error:#}"),
        }
    }
    show(&format!("{}\n", line.as_str()))?;
    if let Some(private) = all_private(invite.addresses()) {
        tracing::warn!("{}", leads_nowhere(private));
    }
    Ok(())
}

/// Returns a QR code with its margin, two rows of dots in each line of text. The colours are right
/// on dark terminals and inverted on light ones, which cameras also accept.
fn in_dots(bytes: &[u8]) -> anyhow::Result<String> {
    let code = QrCode::with_error_correction_level(bytes, EcLevel::L);
    let code = code.context("the invite is too long for a QR code")?;
    let mut picture = code.render::<Dense1x2>();
    picture.dark_color(Dense1x2::Light);
    picture.light_color(Dense1x2::Dark);
    Ok(picture.build() + "\n")
}

fn revoke(store: &GatewayStore, id: PublicKey) -> anyhow::Result<()> {
    store.revoke_invite(id)?;
    show(&format!("revoked the invite {id}\n"))
}

fn list(store: &GatewayStore, json: bool) -> anyhow::Result<()> {
    let now = UnixTime::now();
    let invites = store.invites();
    if json {
        let invites: Vec<Value> = invites.iter().map(|it| described(it, now)).collect();
        return show_json(&json!({ "invites": invites }));
    }
    if invites.is_empty() {
        return show("there is no invite\n");
    }
    let peers = store.peers();
    let names: BTreeMap<PublicKey, &str> = peers
        .iter()
        .filter_map(|peer| Some((peer.key, peer.name.as_deref()?)))
        .collect();
    let mut text = format!("{:<43}  {:>10}  STATE\n", "ID", "VALID FOR");
    for invite in &invites {
        let left = if invite.is_open(now) {
            rounded(invite.expires.since(now))
        } else {
            "-".to_owned()
        };
        let state = match invite.used_by {
            Some(client) => match names.get(&client) {
                Some(name) => format!("used by {client} ({name})"),
                None => format!("used by {client}"),
            },
            None => state(invite, now).to_owned(),
        };
        text.push_str(&format!(
            "{:<43}  {left:>10}  {state}\n",
            invite.key.to_string()
        ));
    }
    show(&text)
}

/// Returns an invite as JSON.
fn described(invite: &PendingInvite, now: UnixTime) -> Value {
    let valid_for = invite.is_open(now).then(|| invite.expires.since(now));
    json!({
        "id": invite.key.to_string(),
        "state": state(invite, now),
        "valid_for_ms": valid_for.map(|it| it.as_secs_f64() * 1000.0),
        "used_by": invite.used_by.map(|client| client.to_string()),
    })
}

fn state(invite: &PendingInvite, now: UnixTime) -> &'static str {
    match (invite.used_by, invite.is_open(now)) {
        (Some(_), _) => "used",
        (None, true) => "open",
        (None, false) => "expired",
    }
}

fn rounded(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Returns the state directory; fails if no gateway has ever run there.
pub(crate) fn gateway_state(setup: &Setup) -> anyhow::Result<&StateDir> {
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
