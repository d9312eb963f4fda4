//! `hawser send`: files to a waiting `hawser receive`, over every link.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use hawser_file::{Refusal, SendError, SendOptions, Sent, send_file};
use hawser_front::bonded::{Bonded, Purpose};
use hawser_net::client::{Client, OpenStreamError};
use hawser_net::links::LinkMonitor;
use hawser_net::stream::ResetByPeer;
use hawser_types::ByteCount;

use crate::args::SendArgs;
use crate::commands::board::{Board, FileBar, amount};
use crate::daemon::proxy::rules::LinkRuleStore;
use crate::daemon::proxy::session::Target;
use crate::setup::{Setup, asked_to_end, substate};

/// Sends every file; fails when any of them could not be sent.
pub(crate) async fn run(setup: &Setup, args: &SendArgs) -> anyhow::Result<()> {
    let setup = &setup.with_transport(args.transport);
    check_files(&args.files)?;
    // Else the receiver would become the gateway that `hawser up` uses next.
    let state = substate(&setup.state, "send")?;
    let (_monitor, links) = LinkMonitor::start()
        .await
        .context("can't follow the links")?;
    let wanted = &setup.config.up.links;
    let rules = LinkRuleStore::open(&setup.config, &setup.state);
    let target = Target::find(setup, &state, Some(&args.to), wanted, &rules)?;
    let target = target.context("--to names no receiver")?;
    let has_invite = target.config.invite.is_some();
    let (outcome, client, keeping) = tokio::select! {
        client = connect(target, &state, links.clone(), has_invite) => {
            let client = Arc::new(client?);
            let keeping = rules.keep(&client, &links);
            let outcome = tokio::select! {
                outcome = send_all(&client, &args.files) => Some(outcome),
                () = asked_to_end() => None,
            };
            (outcome, client, keeping)
        }
        () = asked_to_end() => bail!("interrupted"),
    };
    keeping.finish(&client).await;
    // Each file was confirmed; nothing else is to be waited for.
    client.close(FAREWELL).await;
    match outcome {
        Some(outcome) => outcome,
        None => bail!("interrupted; run the same command again to resume"),
    }
}

/// Refuses before anything is sent where nothing can be.
fn check_files(files: &[PathBuf]) -> anyhow::Result<()> {
    let check = |path: &PathBuf| match path.metadata() {
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(found) if found.is_dir() => Err(format!(
            "{} is a directory; name the files in it",
            path.display()
        )),
        Ok(_) => Ok(()),
    };
    let problems: Vec<String> = files.iter().filter_map(|it| check(it).err()).collect();
    match problems.len() == files.len() {
        true => bail!("{}", problems.join("; ")),
        // The others are sent, and these told of.
        false => Ok(()),
    }
}

/// Waits until the receiver has let this sender in.
async fn connect(
    target: Target,
    state: &hawser_net::store::StateDir,
    links: crate::daemon::proxy::links::Links,
    has_invite: bool,
) -> anyhow::Result<Client> {
    let client = target.connect(state, links).await?;
    let mut admitted = client.admitted(CONNECT_PATIENCE).await;
    if has_invite && matches!(admitted, Err(OpenStreamError::NotAdmitted)) {
        // The receiver has forgotten this key, and the invite is tried next.
        admitted = client.admitted(CONNECT_PATIENCE).await;
    }
    admitted.context("can't reach the receiver")?;
    Ok(client)
}

async fn send_all(client: &Arc<Client>, files: &[PathBuf]) -> anyhow::Result<()> {
    let (board, begun) = (Board::new(), Instant::now());
    let mut failed = 0;
    let mut names = BTreeSet::new();
    let mut due = Vec::new();
    for path in files {
        // What has no name at all is for the transfer to complain about.
        if path.file_name().is_none_or(|name| names.insert(name)) {
            due.push(path);
        } else {
            failed += 1;
            let name = path.display();
            board.complain(&format!("{name}: another file of this name is being sent"));
        }
    }
    let transfers = due.into_iter().map(|path| {
        let board = board.clone();
        async move { (path, send_one(client, path, &board).await) }
    });
    let mut transfers = futures_util::stream::iter(transfers).buffer_unordered(AT_ONCE);
    let (mut sent, mut transferred) = (0, ByteCount::ZERO);
    while let Some((path, result)) = transfers.next().await {
        match result {
            Ok((file, time)) => {
                sent += 1;
                transferred = ByteCount::new(transferred.as_u64() + file.transferred.as_u64());
                board.say(&told(path, &file, time))?;
            }
            Err(error) => {
                failed += 1;
                // The transfer's own errors name the file where they are about it.
                let (name, error) = (path.display().to_string(), error.to_string());
                board.complain(&match error.contains(&name) {
                    true => error,
                    false => format!("{name}: {error}"),
                });
            }
        }
    }
    if files.len() > 1 {
        let amount = amount(transferred, begun.elapsed());
        board.say(&format!("{sent} of {} files sent: {amount}", files.len()))?;
    }
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {} files were not sent", files.len()),
    }
}

fn told(path: &Path, file: &Sent, time: Duration) -> String {
    let (path, size) = (path.display(), file.size);
    match file.already_there {
        true => format!("{path}: was there already, {size}"),
        false => format!("{path}: {size}, sent {}", amount(file.transferred, time)),
    }
}

/// Sends one file, again after the session was lost, until it is there or will never be.
async fn send_one(client: &Client, path: &Path, board: &Board) -> anyhow::Result<(Sent, Duration)> {
    let (begun, place) = (Instant::now(), board.place());
    let (mut failures, mut pause) = (0, FIRST_PAUSE);
    loop {
        let before = place.done();
        let error = match attempt(client, path, &place).await {
            Ok(sent) => return Ok((sent, begun.elapsed())),
            Err(error) => error,
        };
        if place.done() > before {
            (failures, pause) = (0, FIRST_PAUSE);
        }
        failures += 1;
        if error.is_final() || failures >= MAX_FAILURES {
            return Err(error.into());
        }
        tracing::warn!(file = %path.display(), %error, "will try again");
        place.note("trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Reason why one attempt failed.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Open(#[from] OpenStreamError),
    #[error("the far end takes no files; is it `hawser receive`?")]
    NoReceiver,
    #[error("the session with the receiver was lost: {0}")]
    Lost(#[source] io::Error),
    #[error(transparent)]
    Send(#[from] SendError),
}

impl AttemptError {
    /// Returns whether another attempt would fail the same way.
    fn is_final(&self) -> bool {
        match self {
            Self::Open(error) => {
                matches!(
                    error,
                    OpenStreamError::NotAdmitted | OpenStreamError::Closed
                )
            }
            Self::NoReceiver => true,
            Self::Lost(_) | Self::Send(SendError::Stream(_)) => false,
            Self::Send(SendError::Refused { refusal, .. }) => {
                !matches!(refusal, Refusal::TooManyFiles)
            }
            Self::Send(_) => true,
        }
    }
}

async fn attempt(client: &Client, path: &Path, place: &FileBar) -> Result<Sent, AttemptError> {
    // Else the receiver would hear of a transfer that never begins.
    tokio::fs::File::open(path).await.map_err(|source| {
        let path = path.to_path_buf();
        SendError::Open { path, source }
    })?;
    let mut stream = client.open(Purpose::File.opening()).await?;
    stream.accepted().await.map_err(|error| {
        let refused = error
            .get_ref()
            .is_some_and(|inner| inner.is::<ResetByPeer>());
        match refused {
            true => AttemptError::NoReceiver,
            false => AttemptError::Lost(error),
        }
    })?;
    let options = SendOptions::default();
    Ok(send_file(Bonded::new(stream), path, &options, place).await?)
}

/// Files on their way at the same time.
const AT_ONCE: usize = 4;
const FAREWELL: Duration = Duration::from_millis(500);
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// Failures in a row without a byte in between.
const MAX_FAILURES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
