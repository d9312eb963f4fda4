//! `hawser send`: sends files, directories and standard input to a waiting `hawser receive`, over
//! every link.

mod courier;
mod directory;
mod item;
mod outcome;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use hawser_file::{EntryKind, EntryPath, Sent};
use hawser_link::links::LinkMonitor;
use hawser_net::client::{Client, OpenStreamError};
use hawser_types::ByteCount;

use crate::args::SendArgs;
use crate::commands::board::{Board, amount};
use courier::{AttemptError, Courier, Parcel};
use hawser_daemon::proxy::rules::LinkRuleStore;
use hawser_daemon::proxy::session::Target;
use hawser_daemon::setup::{Setup, asked_to_end, show_json, substate};
use item::{Item, items};
use outcome::Outcome;

/// Sends every file; fails if any of them could not be sent.
pub(crate) async fn run(setup: &Setup, args: &SendArgs) -> anyhow::Result<()> {
    let setup = &setup.with_transport(args.transport);
    let items = items(args)?;
    let has_input = items.iter().any(|it| matches!(it, Item::Input { .. }));
    // In the main state directory, the receiver would become the default gateway of `hawser up`.
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
                outcome = send_all(&client, items, args.json) => Some(outcome),
                () = asked_to_end() => None,
            };
            (outcome, client, keeping)
        }
        () = asked_to_end() => bail!("interrupted"),
    };
    keeping.finish(&client).await;
    // Each file was confirmed, so there is nothing else to wait for.
    client.close(FAREWELL).await;
    match outcome {
        Some(outcome) => outcome,
        None if has_input => bail!("interrupted; {NO_RESUMING}"),
        None => bail!("interrupted; run the same command again to resume"),
    }
}

/// Waits until the receiver has let this sender in.
async fn connect(
    target: Target,
    state: &hawser_keys::store::StateDir,
    links: hawser_daemon::proxy::links::Links,
    has_invite: bool,
) -> anyhow::Result<Client> {
    let client = target.connect(state, links).await?;
    let mut admitted = client.admitted(CONNECT_PATIENCE).await;
    if has_invite && matches!(admitted, Err(OpenStreamError::NotAdmitted)) {
        // The receiver has forgotten this key; the client tries the invite next.
        admitted = client.admitted(CONNECT_PATIENCE).await;
    }
    admitted.context("can't reach the receiver")?;
    Ok(client)
}

/// Sends all items, several at a time; fails if any of them could not be sent.
async fn send_all(client: &Arc<Client>, items: Vec<Item>, json: bool) -> anyhow::Result<()> {
    let (board, begun) = (Board::new(), Instant::now());
    let courier = Courier::new(Arc::clone(client));
    let (due, mut outcomes) = without_namesakes(items, &board);
    let many = due.len() + outcomes.len() > 1;
    let sent = due.iter().map(|item| send_item(&courier, &board, item));
    let mut sent = futures_util::stream::iter(sent).buffer_unordered(AT_ONCE);
    while let Some((outcome, line)) = sent.next().await {
        if let Some(line) = line.filter(|_| !json) {
            board.say(&line)?;
        }
        outcomes.push(outcome);
    }
    let missing: usize = outcomes.iter().map(Outcome::missing).sum();
    let total: usize = outcomes.iter().map(Outcome::total).sum();
    if json {
        show_json(&serde_json::json!({ "sent": outcomes }))?;
    } else if many {
        let transferred = outcomes.iter().map(|it| it.transferred().as_u64()).sum();
        let amount = amount(ByteCount::new(transferred), begun.elapsed());
        let there = total - missing;
        board.say(&format!("{there} of {total} files sent: {amount}"))?;
    }
    match missing {
        0 => Ok(()),
        _ => bail!("{missing} of {total} files were not sent"),
    }
}

/// Leaves out items that would have the same name at the receiver as an earlier item.
fn without_namesakes(items: Vec<Item>, board: &Board) -> (Vec<Item>, Vec<Outcome>) {
    let (mut names, mut refused) = (BTreeSet::new(), Vec::new());
    let is_first = |item: &Item| {
        let is_first = item.top().is_none_or(|name| names.insert(name));
        if !is_first {
            let (name, reason) = (item.shown(), "another file of this name is being sent");
            board.complain(&format!("{name}: {reason}"));
            let mut outcome = Outcome::new(name.clone());
            outcome.fail(name, reason.to_owned());
            refused.push(outcome);
        }
        is_first
    };
    let due = items.into_iter().filter(is_first).collect();
    (due, refused)
}

/// Sends one item; returns its outcome, with a message for the user if it was sent.
async fn send_item(courier: &Courier, board: &Board, item: &Item) -> (Outcome, Option<String>) {
    match item {
        Item::Directory { source, path } => {
            let outcome = directory::send(courier, board, source, path).await;
            let line = outcome.directory_line();
            (outcome, Some(line))
        }
        Item::File { source, path } => send_file(courier, board, source, path.as_ref()).await,
        Item::Input { path } => send_input(courier, board, path).await,
    }
}

async fn send_file(
    courier: &Courier,
    board: &Board,
    source: &Path,
    path: Option<&EntryPath>,
) -> (Outcome, Option<String>) {
    let (begun, place) = (Instant::now(), board.place());
    let result = courier.send(Parcel::File(source, path), &place).await;
    drop(place);
    finished(board, source.display().to_string(), result, None, begun)
}

async fn send_input(
    courier: &Courier,
    board: &Board,
    path: &EntryPath,
) -> (Outcome, Option<String>) {
    let (begun, place) = (Instant::now(), board.place());
    let result = courier.send_input(path, &place).await;
    drop(place);
    finished(board, path.to_string(), result, Some(NO_RESUMING), begun)
}

/// Returns the outcome of one file. Adds the `advice` if the connection to the receiver failed.
fn finished(
    board: &Board,
    name: String,
    result: Result<Sent, AttemptError>,
    advice: Option<&str>,
    begun: Instant,
) -> (Outcome, Option<String>) {
    let mut outcome = Outcome::new(name.clone());
    outcome.took(begun.elapsed());
    match result {
        Ok(sent) => {
            outcome.add(EntryKind::File, &sent);
            let line = outcome.file_line();
            (outcome, Some(line))
        }
        Err(error) => {
            let advice = advice.filter(|_| error.is_about_the_way());
            let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
            board.complain(&format!("{}{advice}", error.line(&name)));
            outcome.fail(name, format!("{error}{advice}"));
            (outcome, None)
        }
    }
}

/// Items of the command line that are sent at the same time.
const AT_ONCE: usize = 4;
const FAREWELL: Duration = Duration::from_millis(500);
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
const NO_RESUMING: &str =
    "standard input cannot be resumed: start the command that writes it again";
