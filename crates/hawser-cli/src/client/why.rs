//! `hawser why`: the reasons why the running daemon used each link or not.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hawser_control::{Request, Response};
use hawser_text::render_why;
use hawser_types::ByteCount;

use crate::args::WhyArgs;
use crate::client::ask::{Conversation, OTHER_ANSWER, width};
use hawser_daemon::setup::{Setup, show, show_json};

/// Prints the reasons as text or JSON, or writes the recording that they are derived from.
pub(crate) async fn run(setup: &Setup, args: &WhyArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    if let Some(path) = &args.dump {
        let recording = fetch(&mut conversation, args).await?;
        return write(path, &recording);
    }
    let request = Request::Why {
        session: args.session.clone(),
        stream: args.stream,
        connection: args.connection,
        connections: args.connections,
    };
    let Response::Why(report) = conversation.ask(&request).await? else {
        bail!(OTHER_ANSWER);
    };
    if args.table.json {
        show_json(&report)
    } else {
        show(&render_why(&report, width()))
    }
}

/// Fetches the recording of a session, piece by piece.
async fn fetch(conversation: &mut Conversation, args: &WhyArgs) -> anyhow::Result<Vec<u8>> {
    let mut recording = Vec::new();
    loop {
        let request = Request::Recording {
            session: args.session.clone(),
            destinations: args.destinations,
            offset: recording.len() as u64,
        };
        let Response::Recording { piece, left_bytes } = conversation.ask(&request).await? else {
            bail!(OTHER_ANSWER);
        };
        let piece = STANDARD.decode(piece).context(OTHER_ANSWER)?;
        recording.extend_from_slice(&piece);
        if left_bytes == 0 {
            return Ok(recording);
        }
        ensure!(
            !piece.is_empty() && recording.len() < MAX_RECORDING,
            OTHER_ANSWER
        );
    }
}

/// Writes the file whole or not at all, readable by its owner only.
fn write(path: &Path, recording: &[u8]) -> anyhow::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let written = || -> anyhow::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(recording)?;
        file.persist(path)?;
        Ok(())
    };
    written().with_context(|| format!("can't write {}", path.display()))?;
    let size = ByteCount::from(recording.len());
    show(&format!(
        "{}: {size}; `hawser-sim replay` reads it\n",
        path.display()
    ))
}

/// Limit of a recording's size, larger than any daemon's recording.
const MAX_RECORDING: usize = 128 << 20;
