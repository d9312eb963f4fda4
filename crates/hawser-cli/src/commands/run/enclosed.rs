//! Carries all packets of a program that runs in a network of its own.

use std::io::Write as _;
use std::pin::pin;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use hawser_config::IpNet;
use hawser_front::name_stub::NameStub;
use hawser_front::packets::{InboundFlows, PacketTunnel, Terms, Wish};
use hawser_host::tun::Enclosure;
use hawser_net::client::Client;
use tempfile::NamedTempFile;
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;

use super::child::Child;
use crate::args::RunArgs;
use hawser_daemon::setup::asked_to_end;

/// Runs the program to its end. Carries its packets over the gateway of `client`; `names` answers
/// its DNS queries.
pub(super) async fn run(
    args: &RunArgs,
    client: &Arc<Client>,
    names: NameStub,
) -> anyhow::Result<ExitCode> {
    let tunnel = PacketTunnel::open(client, Wish::default(), InboundFlows::Refused).await;
    let tunnel = tunnel.context("--tun")?;
    let terms = tunnel.terms();
    let names = Arc::new(names);
    let servers = servers_file(&terms).context("can't write the program's resolv.conf")?;
    let enclosure = Enclosure::prepare().context("can't make a network for the program")?;
    let command = command(args, &enclosure, &terms, &servers)?;
    let child = match Child::start(command)? {
        Ok(child) => child,
        Err(code) => return Ok(code),
    };
    let mut ended = pin!(child.end());
    let enclosed = tokio::select! {
        // The program has printed the reason.
        code = &mut ended => return code,
        enclosed = enclosure.device() => enclosed?,
    };
    let keeper = Keeper::start(enclosed.process()).await;
    let tun = enclosed.start().await?;
    // The mount keeps the file.
    drop(servers);
    // A task, not this future: the main thread would have to be woken for each batch of packets.
    let mut carrier = JoinSet::new();
    carrier.spawn(tunnel.carry(tun, names));
    let code = tokio::select! {
        code = &mut ended => code,
        Some(error) = carrier.join_next() => {
            let error = error.map_or_else(|error| error.to_string(), |error| error.to_string());
            tracing::error!(error, "the program has lost its network");
            return ended.await;
        }
    };
    let finished = async {
        match keeper {
            Ok(keeper) => keeper.finish().await,
            Err(error) => tracing::debug!(%error,
                "can't keep the network until the program's last data is acknowledged"),
        }
    };
    tokio::select! {
        () = finished => {}
        Some(error) = carrier.join_next() => {
            tracing::debug!(?error, "last data of the program may be lost");
        }
    }
    code
}

/// The process that keeps the program's network until the data that the program has sent is
/// acknowledged.
struct Keeper {
    process: tokio::process::Child,
}

impl Keeper {
    /// Starts the keeper in the network of the process `of`.
    async fn start(of: Option<i32>) -> std::io::Result<Self> {
        let of = of.ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = tokio::process::Command::new(std::env::current_exe()?);
        command.args(["keeper", "--process", &of.to_string()]);
        // In a process group of its own, the keeper gets no signals from the terminal.
        command.process_group(0).kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        if let Some(ready) = &mut process.stdout {
            ready.read_u8().await?;
        }
        Ok(Self { process })
    }

    /// Call after the program's end: waits until the keeper is done, or a signal asks to end.
    async fn finish(mut self) {
        drop(self.process.stdin.take());
        tokio::select! {
            _ = self.process.wait() => {}
            () = asked_to_end() => {}
        }
    }
}

/// Creates a `resolv.conf` with name servers that the tunnel answers for. Any user may read it.
fn servers_file(terms: &Terms) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let readable = std::fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().permissions(readable).tempfile()?;
    for server in terms.gateway.addresses() {
        writeln!(file, "nameserver {server}")?;
    }
    Ok(file)
}

/// Returns the command that runs this program again, which then becomes the user's program.
fn command(
    args: &RunArgs,
    enclosure: &Enclosure,
    terms: &Terms,
    servers: &NamedTempFile,
) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("can't find the program hawser")?;
    let mut command = Command::new(own);
    command.args(["enclosed", "--enclosure", enclosure.name()]);
    for address in terms.client.addresses() {
        command.args(["--address", &IpNet::from(address).to_string()]);
    }
    command.args(["--mtu", &terms.mtu.to_string(), "--resolv-conf"]);
    command.arg(servers.path()).arg("--").args(args.command());
    Ok(command)
}
