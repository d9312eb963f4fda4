//! `hawser status`: asks the daemon that runs in the state directory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hawser_control::{LineDecoder, Request, Response, StatusSnapshot, encode, render_status};
use hawser_net::store::StateDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::args::TableArgs;
use crate::daemon::SOCKET;
use crate::receive;
use crate::setup::{Setup, show, show_json};

/// Shows what the daemon is doing.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let Some(snapshot) = ask(&setup.state).await? else {
        return Err(no_daemon(&setup.state));
    };
    match args.json {
        true => show_json(&snapshot),
        false => show(&render_status(&snapshot, width())),
    }
}

/// Nobody answers in `state`.
pub(crate) fn no_daemon(state: &StateDir) -> anyhow::Error {
    anyhow::anyhow!(
        "no hawser daemon runs in {}; start one with `hawser up` or `hawser serve`, or say where \
         it is with --state DIR",
        state.path().display()
    )
}

/// What the daemon of `state` is doing; `None` where there is none.
pub(crate) async fn ask(state: &StateDir) -> anyhow::Result<Option<StatusSnapshot>> {
    match request(state, &Request::Status).await? {
        None => Ok(None),
        Some(Response::Status(snapshot)) => Ok(Some(*snapshot)),
        Some(_) => bail!("the daemon answers something else than was asked"),
    }
}

/// What the daemon of `state` answers; `None` where there is none.
pub(crate) async fn request(
    state: &StateDir,
    request: &Request,
) -> anyhow::Result<Option<Response>> {
    // `hawser receive` keeps its own things one level below.
    for path in [state.file(SOCKET), state.file(receive::STATE).join(SOCKET)] {
        let asking = tokio::time::timeout(PATIENCE, request_at(&path, request)).await;
        let answer = asking.context("the daemon does not answer")?;
        if let Some(response) = answer? {
            return Ok(Some(response));
        }
    }
    Ok(None)
}

async fn request_at(path: &Path, request: &Request) -> anyhow::Result<Option<Response>> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    let mut stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("can't ask at {}", path.display()));
        }
    };
    stream.write_all(&encode(request)?).await?;
    let mut decoder = LineDecoder::new();
    let mut buffer = vec![0; READ_SIZE];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            bail!("the daemon ended before it answered");
        }
        decoder.handle_bytes(buffer.get(..read).unwrap_or_default())?;
        match decoder.poll_message()? {
            Some(Response::Error { message, .. }) => bail!("the daemon says: {message}"),
            Some(response) => return Ok(Some(response)),
            None => {}
        }
    }
}

fn width() -> usize {
    use rustix::termios::tcgetwinsize;
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => DEFAULT_WIDTH,
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
const READ_SIZE: usize = 64 * 1024;
/// Of files and pipes.
const DEFAULT_WIDTH: usize = 100;
