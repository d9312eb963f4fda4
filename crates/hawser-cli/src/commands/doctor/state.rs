//! The state directory, the ports, and the gateway over each link.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use hawser_control::Request;
use hawser_keys::identity::Identity;
use hawser_keys::store::{ClientStore, EnrolledGateway, StateDir};
use hawser_keys::unix_time::UnixTime;
use hawser_link::bind::{SocketOptions, connect_on_link};
use hawser_link::links::Link;
use hawser_seal::TlsClient;
use hawser_text::registration_line;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::check::Check;
use crate::client::status;
use hawser_daemon::setup::{Setup, explained};

pub(super) async fn check(setup: &Setup, links: &[Link]) -> Vec<Check> {
    let state = &setup.state;
    let mut checks = vec![directory(state)];
    checks.extend(key(state));
    checks.extend(ports(setup).await);
    checks.extend(registration(setup).await);
    let gateway = if state.path().is_dir() {
        ClientStore::open(state).map(|store| store.default_gateway())
    } else {
        Ok(None)
    };
    match gateway {
        Ok(Some(gateway)) => {
            checks.push(known(&gateway));
            checks.extend(reach(state, &gateway, links).await);
        }
        Ok(None) => checks.push(Check::warn(
            "gateway",
            "none is enrolled: `hawser up` connects directly, each connection over one link",
            "`hawser serve` on a server prints an invite; `hawser up --gateway INVITE` enrols",
        )),
        Err(error) => checks.push(Check::fail(
            "gateway",
            explained(&error.into()),
            "repair the file, or move it away and enrol again",
        )),
    }
    checks
}

fn directory(state: &StateDir) -> Check {
    let (name, path) = ("state directory", state.path().display().to_string());
    let Ok(metadata) = std::fs::metadata(state.path()) else {
        return Check::ok(name, format!("{path} is created when it is needed"));
    };
    let mode = metadata.permissions().mode() & 0o777;
    let close = format!("chmod 700 {path}");
    if !metadata.is_dir() {
        return Check::fail(
            name,
            format!("{path} is not a directory"),
            "name another one with --state",
        );
    }
    match mode {
        _ if mode & 0o002 != 0 => Check::fail(name, format!("every user may write {path}"), close),
        _ if mode & 0o077 != 0 => {
            let finding = format!("{path} has mode {mode:04o}, so other users can look into it");
            Check::warn(name, finding, close)
        }
        _ => Check::ok(name, format!("{path}, mode {mode:04o}")),
    }
}

fn key(state: &StateDir) -> Option<Check> {
    let path = state.file("key");
    if !path.exists() {
        return None;
    }
    Some(match Identity::load(&path) {
        Ok(identity) => Check::ok("key", identity.public().to_string()),
        Err(error) => Check::fail(
            "key",
            explained(&error.into()),
            "repair the file, or move it away and enrol again",
        ),
    })
}

/// Checks that each port is free, or in use by the daemon of this state directory.
async fn ports(setup: &Setup) -> Vec<Check> {
    let own = status::ask(&setup.state, &Request::STATUS_WITHOUT_SESSIONS).await;
    let own = own.ok().flatten();
    let own = own.map(|snapshot| snapshot.listen).unwrap_or_default();
    let ports = [
        ("port of `hawser up`", setup.config.up.listen),
        ("port of `hawser serve`", setup.config.serve.listen),
    ];
    let check = |(name, address): (&str, SocketAddr)| match TcpListener::bind(address) {
        Ok(_) => Check::ok(name, format!("{address} is free")),
        Err(_) if own.iter().any(|it| it.port() == address.port()) => {
            Check::ok(name, format!("{address} is used by the running daemon"))
        }
        Err(error) => Check::warn(
            name,
            format!("{address}: {error}"),
            "stop the program that uses it (`ss -ltnp` shows it), or choose another port with --listen",
        ),
    };
    ports.into_iter().map(check).collect()
}

/// Checks whether other hosts find this host by its name, if the running daemon registers one.
async fn registration(setup: &Setup) -> Option<Check> {
    let own = status::ask(&setup.state, &Request::STATUS_WITHOUT_SESSIONS).await;
    let status = own.ok().flatten()?.registration?;
    let finding = registration_line(&status);
    Some(match (status.is_registered, &status.reason) {
        (true, None) => Check::ok("directory", finding),
        _ => Check::warn(
            "directory",
            finding,
            "check the name, the password and the directory, and that UDP or TCP reaches the \
             directory; the daemon retries by itself",
        ),
    })
}

fn known(gateway: &EnrolledGateway) -> Check {
    let addresses: Vec<String> = gateway.addresses.iter().map(ToString::to_string).collect();
    let finding = format!("{} at {}", gateway.key, addresses.join(", "));
    if gateway.enrolled_at > UnixTime::now() + CLOCK_SLACK {
        Check::warn(
            "gateway",
            format!("{finding}, enrolled in the future: this machine's clock is behind"),
            "set the clock: `timedatectl set-ntp true`",
        )
    } else {
        Check::ok("gateway", finding)
    }
}

/// Tries a handshake with the gateway over every link.
async fn reach(state: &StateDir, gateway: &EnrolledGateway, links: &[Link]) -> Vec<Check> {
    let identity = match state.identity() {
        Ok(identity) => identity,
        // The check of the key has reported this already.
        Err(_) => return Vec::new(),
    };
    let mut remotes = Vec::new();
    for address in &gateway.addresses {
        if let Some(address) = address.socket_addr() {
            remotes.push(address);
        } else if let Ok(Ok(found)) = timeout(PATIENCE, lookup_host(address.to_string())).await {
            remotes.extend(found);
        }
    }
    if remotes.is_empty() {
        return vec![Check::fail(
            "gateway's name",
            "it has no address",
            "check whether names are resolved here (`getent hosts NAME`)",
        )];
    }
    let mut ways: Vec<Option<&Link>> = links.iter().map(Some).collect();
    if remotes.iter().all(|remote| remote.ip().is_loopback()) {
        ways = vec![None];
    }
    let mut checks = Vec::new();
    for link in ways {
        checks.push(over(link, &remotes, &identity, gateway).await);
    }
    checks
}

async fn over(
    link: Option<&Link>,
    remotes: &[SocketAddr],
    identity: &Identity,
    gateway: &EnrolledGateway,
) -> Check {
    let name = match link {
        Some(link) => format!("gateway over {}", link.name),
        None => "gateway on this machine".to_owned(),
    };
    let mut problems = Vec::new();
    for &remote in remotes.iter().take(MAX_TRIED) {
        let trying = timeout(PATIENCE, greet(link, remote, identity, gateway)).await;
        match trying.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer from {remote}"))) {
            Ok(()) => return Check::ok(name, format!("{remote} knows this machine")),
            Err(error) => problems.push(explained(&error)),
        }
    }
    let remedy = if problems
        .iter()
        .any(|problem| problem.contains("refused the handshake"))
    {
        "this machine is no longer enrolled there: enrol again with a new invite"
    } else {
        "check that the gateway runs, that no firewall is in the way, and the link's route"
    };
    problems.dedup();
    Check::fail(name, problems.join("; "), remedy)
}

async fn greet(
    link: Option<&Link>,
    remote: SocketAddr,
    identity: &Identity,
    gateway: &EnrolledGateway,
) -> anyhow::Result<()> {
    let stream = connect_on_link(link, remote, &SocketOptions::default()).await?;
    let tls = TlsClient::new(identity, gateway.key)?;
    let mut handshake = tls.handshake(stream).await?;
    handshake.accepted().await?;
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(3);
const CLOCK_SLACK: Duration = Duration::from_secs(3600);
/// Addresses tried over each link.
const MAX_TRIED: usize = 4;
