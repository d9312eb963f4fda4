//! `hawser receive`: waits for files.

use std::io;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use hawser_control::Role;
use hawser_file::{
    EntryKind, ExistingFile, ReceiveError, ReceiveOptions, Received, Receiver, UnorderedRead,
};
use hawser_front::bonded::{Bonded, Purpose, UnorderedReader};
use hawser_front::gateway::IncomingStream as _;
use hawser_front::transport::DialError;
use hawser_net::gateway::Incoming;

use crate::args::ReceiveArgs;
use crate::commands::board::{Board, amount};
use hawser_daemon::Daemon;
use hawser_daemon::gateway::far_end::FarEnd;
use hawser_daemon::setup::{Setup, substate};

/// Receives files until the command is asked to end.
pub(crate) async fn run(setup: &Setup, args: &ReceiveArgs) -> anyhow::Result<()> {
    let directory = &args.directory;
    ensure!(
        directory.is_dir(),
        "{} is not a directory",
        directory.display()
    );
    let options = ReceiveOptions {
        existing: if args.replace {
            ExistingFile::Replace
        } else {
            ExistingFile::Refuse
        },
        ..ReceiveOptions::default()
    };
    // A sender of files does not become a client of the gateway, nor the other way round.
    let state = substate(&setup.state, STATE)?;
    check_apart(directory, setup.state.path())
        .with_context(|| format!("can't receive into {}", directory.display()))?;
    let receiver = Receiver::new(directory, options)
        .with_context(|| format!("can't receive into {}", directory.display()))?;
    let mut config = setup.config.serve.clone();
    args.door.apply_to(&mut config);
    // The dashboard belongs to the gateway, which may run at the same time.
    config.web = None;
    let invite_file = args.door.invite_file.as_deref();
    let far_end = FarEnd::receiving(setup, &state, &config, invite_file);
    let board = Board::new();
    let daemon = Daemon::start(&state, Role::Receiver)?;
    far_end
        .run(&daemon, |incoming| {
            tokio::spawn(take(receiver.clone(), incoming, board.clone()));
        })
        .await
}

/// Refuses a directory through which senders could write to Hawser's own keys and lists.
fn check_apart(directory: &Path, state: &Path) -> anyhow::Result<()> {
    let (directory, state) = (directory.canonicalize()?, state.canonicalize()?);
    let is_apart = !state.starts_with(&directory) && !directory.starts_with(&state);
    ensure!(
        is_apart,
        "Hawser keeps its own state in {}; use a folder of its own for what is received",
        state.display()
    );
    Ok(())
}

/// Receives the file of one stream.
async fn take(receiver: Receiver, incoming: Incoming, board: Board) {
    let peer = incoming.peer;
    let mut stream = Bonded::new(incoming.stream);
    if Purpose::of(stream.open_metadata()) != Some(Purpose::File) {
        stream.refuse(DialError::RefusedByPolicy);
        return;
    }
    stream.accept();
    let (reader, writer) = match stream.into_unordered() {
        Ok(halves) => halves,
        Err(error) => {
            tracing::debug!(%peer, %error, "stream ended before the transfer began");
            return;
        }
    };
    let (begun, place) = (Instant::now(), board.place());
    let result = receiver.receive(Chunks(reader), writer, &place).await;
    drop(place);
    match result {
        // Of a directory, only its files are reported.
        Ok(received) if received.kind != EntryKind::File => {
            let path = received.path.display();
            tracing::debug!(%path, kind = ?received.kind, "received an entry of a directory");
        }
        Ok(received) => {
            // Receiving goes on even if the reader of the output has closed it.
            let _ = board.say(&told(&received, begun));
        }
        Err(ReceiveError::Superseded) => tracing::info!(%peer, "a later transfer took over"),
        Err(error) => board.complain(&format!("a file was not received: {error}")),
    }
}

/// Adapts the chunks of a bonded stream to the reader of file transfers.
struct Chunks(UnorderedReader);

impl UnorderedRead for Chunks {
    async fn read_chunk(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        self.0.read_chunk().await
    }
}

fn told(received: &Received, begun: Instant) -> String {
    let path = received.path.display();
    if received.already_there {
        format!("{path}: was there already, {}", received.size)
    } else {
        format!(
            "{path}: {}, received {}",
            received.size,
            amount(received.transferred, begun.elapsed())
        )
    }
}

/// Subdirectory of the state directory.
pub(crate) const STATE: &str = "receive";
