//! Requests to the daemon that runs in a state directory.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hawser_control::{ErrorReason, LineDecoder, Request, Response, encode};
use hawser_keys::store::StateDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::commands::receive;
use hawser_daemon::setup::{Usage, show};
use hawser_daemon::{SOCKET, group_socket};

/// A connection to a daemon's control socket.
pub(crate) struct Conversation {
    stream: UnixStream,
    decoder: LineDecoder,
}

impl Conversation {
    /// Connects to the daemon of `state`; returns `None` if no daemon runs there.
    pub(crate) async fn begin(state: &StateDir) -> anyhow::Result<Option<Self>> {
        // `hawser receive` has its own state directory one level below.
        for path in [state.file(SOCKET), state.file(receive::STATE).join(SOCKET)] {
            if let Some(stream) = connect(&path).await? {
                let decoder = LineDecoder::new();
                return Ok(Some(Self { stream, decoder }));
            }
        }
        Ok(None)
    }

    /// Like [`Conversation::begin`]; connects to the machine's daemon if the user runs no daemon.
    pub(crate) async fn begin_with_any(state: &StateDir) -> anyhow::Result<Option<Self>> {
        let own = Self::begin(state).await?;
        if own.is_some() || !StateDir::resolve(None).is_ok_and(|usual| usual == *state) {
            return Ok(own);
        }
        let Some(stream) = connect(&group_socket::path()).await.map_err(of_group)? else {
            return Ok(None);
        };
        let decoder = LineDecoder::new();
        Ok(Some(Self { stream, decoder }))
    }

    /// Like [`Conversation::begin_with_any`]; if no daemon runs, the error tells how to start one.
    pub(crate) async fn with_daemon(state: &StateDir) -> anyhow::Result<Self> {
        let Some(conversation) = Self::begin_with_any(state).await? else {
            bail!(
                "no hawser daemon runs in {}; start one with `hawser up` or `hawser serve`, or \
                 say where it is with --state DIR",
                state.path().display()
            );
        };
        Ok(conversation)
    }

    /// Sends a request and waits for the answer. A refusal by the daemon is an error.
    pub(crate) async fn ask(&mut self, request: &Request) -> anyhow::Result<Response> {
        self.ask_for(Duration::ZERO, request).await
    }

    /// Like [`Conversation::ask`], for a request that the daemon may delay by up to `wait`.
    pub(crate) async fn ask_for(
        &mut self,
        wait: Duration,
        request: &Request,
    ) -> anyhow::Result<Response> {
        match self.answer(wait, request).await? {
            Response::Error { message, .. } => bail!("the daemon says: {message}"),
            response => Ok(response),
        }
    }

    /// Asks the daemon for a change. Prints the file that the change was saved in, if any. A daemon
    /// that does not know or allow the change reports an error to the user.
    pub(crate) async fn change(&mut self, request: &Request) -> anyhow::Result<()> {
        use ErrorReason::{Invalid, NotFound};
        match self.answer(Duration::ZERO, request).await? {
            Response::Done { saved: None } => Ok(()),
            Response::Done { saved: Some(file) } => show(&format!("saved to {file}\n")),
            Response::Error { reason, message } => {
                let message = format!("the daemon says: {message}");
                match reason {
                    Invalid | NotFound => Err(Usage(message).into()),
                    _ => bail!(message),
                }
            }
            _ => bail!(OTHER_ANSWER),
        }
    }

    /// Like [`Conversation::ask_for`], but returns a refusal as an answer.
    pub(crate) async fn answer(
        &mut self,
        wait: Duration,
        request: &Request,
    ) -> anyhow::Result<Response> {
        let answer = tokio::time::timeout(wait + PATIENCE, self.exchange(request));
        answer.await.context("the daemon does not answer")?
    }

    async fn exchange(&mut self, request: &Request) -> anyhow::Result<Response> {
        let line = encode(request)?;
        self.stream.write_all(&line).await.map_err(ended)?;
        let mut buffer = vec![0; READ_SIZE];
        loop {
            let read = self.stream.read(&mut buffer).await.map_err(ended)?;
            if read == 0 {
                return Err(DaemonEnded.into());
            }
            let bytes = buffer.get(..read).unwrap_or_default();
            self.decoder.handle_bytes(bytes)?;
            if let Some(response) = self.decoder.poll_message()? {
                return Ok(response);
            }
        }
    }
}

/// Error for a daemon that ended before it answered.
#[derive(Debug, thiserror::Error)]
#[error("the daemon ended before it answered")]
pub(crate) struct DaemonEnded;

/// Describes an error of a connection that a killed daemon leaves behind.
fn ended(error: io::Error) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error.kind() {
        BrokenPipe | ConnectionReset => DaemonEnded.into(),
        _ => error.into(),
    }
}

/// Explains a denied permission: only root and the group may connect to the machine's daemon.
fn of_group(error: anyhow::Error) -> anyhow::Error {
    let group = group_socket::GROUP;
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::PermissionDenied) => anyhow!(
            "the daemon of this machine answers root, and members of the group {group}: `sudo \
             usermod -aG {group} USER` adds one, from the next login on"
        ),
        _ => error,
    }
}

async fn connect(path: &Path) -> anyhow::Result<Option<UnixStream>> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("can't connect to the daemon at {}", path.display()))
        }
    }
}

/// Returns the number of columns of the terminal.
pub(crate) fn width() -> usize {
    use rustix::termios::tcgetwinsize;
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => DEFAULT_WIDTH,
    }
}

/// Error for an answer of another kind than the request's.
pub(crate) const OTHER_ANSWER: &str = "the daemon sent an unexpected answer";

const PATIENCE: Duration = Duration::from_secs(5);
const READ_SIZE: usize = 64 * 1024;
/// Columns of output to files and pipes.
const DEFAULT_WIDTH: usize = 100;
