//! The control socket: each request is one line of JSON, and so is each answer.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_control::{CodecError, ErrorReason, LineDecoder, Request, Response, encode_response};
use rustix::fs::{Mode, fchmod};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::far_reasons;
use super::recording::Copy;
use super::state::State;
use super::takeover;

/// The socket's file, which is removed with the daemon, unless another daemon has replaced it.
pub(super) struct SocketFile {
    path: PathBuf,
    /// The file's inode, if it is known.
    inode: Option<u64>,
}

impl SocketFile {
    fn of(path: &Path) -> Self {
        let inode = inode(path);
        let path = path.to_path_buf();
        Self { path, inode }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.inode == inode(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|it| it.ino())
}

/// Opens the socket at `path`, mode 0600, and replaces the socket of a daemon that has died.
///
/// Only the holder of the directory's lock may call this.
pub(super) fn listen(path: &Path) -> anyhow::Result<(UnixListener, SocketFile)> {
    listen_with(path, |at| {
        let socket = private_socket()?;
        socket.bind(at)?;
        Ok(socket)
    })
}

/// Like [`listen`], with a socket that `bind` creates.
pub(super) fn listen_with(
    path: &Path,
    bind: impl FnOnce(&Path) -> std::io::Result<UnixSocket>,
) -> anyhow::Result<(UnixListener, SocketFile)> {
    // The socket is created under another name and renamed once it listens, so that clients that
    // find it are answered.
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let open = || -> std::io::Result<UnixListener> {
        let listener = bind(&fresh)?.listen(BACKLOG)?;
        std::fs::rename(&fresh, path)?;
        Ok(listener)
    };
    let listener = open()
        .with_context(|| format!("can't open the control socket {}", path.display()))
        .inspect_err(|_| drop(std::fs::remove_file(&fresh)))?;
    Ok((listener, SocketFile::of(path)))
}

/// Creates a socket whose file will have mode 0600.
///
/// On Linux the file gets the mode of the socket when it is bound. Changing the mode by the file's
/// name would be unsafe: in a service's directory, another file may have replaced the socket.
fn private_socket() -> std::io::Result<UnixSocket> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    Ok(socket)
}

/// The users that a socket serves.
#[derive(Clone, Copy)]
pub(super) enum For {
    /// The daemon's own user, and root.
    Owner,
    /// All users that the file system lets open the socket. Requests for the owner alone are
    /// refused.
    Group,
}

/// Answers requests for as long as the daemon lives.
pub(super) async fn serve(listener: UnixListener, whom: For, state: Arc<State>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Further connections wait in the socket's queue until there is a place.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let is_owner = is_trusted(&stream);
                if matches!(whom, For::Owner) && !is_owner {
                    tracing::warn!("refused a request of another user at the control socket");
                    continue;
                }
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = converse((stream, is_owner), &state).await {
                        tracing::debug!(%error, "control connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept control connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Returns whether the client is the daemon's own user, or root.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// A control connection: requests and answers in turns.
struct Conversation {
    stream: UnixStream,
    /// The client is the daemon's own user, or root.
    is_owner: bool,
    decoder: LineDecoder,
    buffer: Vec<u8>,
    copy: Copy,
}

async fn converse((stream, is_owner): (UnixStream, bool), state: &State) -> std::io::Result<()> {
    let mut conversation = Conversation {
        stream,
        is_owner,
        decoder: LineDecoder::new(),
        buffer: vec![0; READ_SIZE],
        copy: Copy::default(),
    };
    loop {
        match timeout(PATIENCE, conversation.turn(state)).await {
            Ok(Ok(true)) => {}
            Ok(outcome) => return outcome.map(drop),
            Err(_) => return Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Conversation {
    /// Handles one request and its answer; returns whether another request may follow.
    async fn turn(&mut self, state: &State) -> std::io::Result<bool> {
        let request = loop {
            match self.decoder.poll_message::<Request>() {
                Ok(Some(request)) => break request,
                Ok(None) => {}
                Err(error) => return self.refuse(&error).await,
            }
            let read = self.stream.read(&mut self.buffer).await?;
            let bytes = self.buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(false);
            }
            if let Err(error) = self.decoder.handle_bytes(bytes) {
                return self.refuse(&error).await;
            }
        };
        let response = self.answer(&request, state).await;
        say(&mut self.stream, &response).await?;
        if response == Response::Stopping {
            state.stop();
        }
        Ok(true)
    }

    async fn answer(&mut self, request: &Request, state: &State) -> Response {
        if request.is_for_owner() && !self.is_owner {
            return forbidden();
        }
        match request {
            Request::Stop => Response::Stopping,
            Request::Upgrade { limit } => {
                let limit = limit.map_or(UPGRADE_LIMIT, |limit| limit.min(LONGEST_LIMIT));
                takeover::replace(state.wishes(), limit).await
            }
            Request::Recording {
                session,
                destinations,
                offset,
            } => {
                let session = session.as_deref();
                self.copy.answer(state, session, *destinations, *offset)
            }
            Request::Events {
                after,
                wait: Some(wait),
            } => state.events_within(*after, *wait).await,
            Request::Why {
                connection: None,
                connections: None,
                ..
            } => {
                let mut response = state.answer(request);
                far_reasons::add(state, &mut response).await;
                response
            }
            request => state.answer_named(request).await,
        }
    }

    async fn refuse(&mut self, error: &CodecError) -> std::io::Result<bool> {
        say(&mut self.stream, &malformed(error))
            .await
            .map(|()| false)
    }
}

fn forbidden() -> Response {
    Response::Error {
        reason: ErrorReason::Forbidden,
        message: "this request is for the daemon's own user and root, not for the group".to_owned(),
    }
}

fn malformed(error: &CodecError) -> Response {
    Response::Error {
        reason: ErrorReason::Malformed,
        message: error.to_string(),
    }
}

async fn say(stream: &mut UnixStream, response: &Response) -> std::io::Result<()> {
    match encode_response(response) {
        Ok(line) => stream.write_all(&line).await,
        Err(error) => {
            tracing::warn!(%error, "can't encode an answer");
            Err(std::io::ErrorKind::InvalidData.into())
        }
    }
}

/// The file name of a control socket.
pub const SOCKET: &str = "control.sock";
/// Connections that wait for a place; the kernel may allow fewer.
const BACKLOG: u32 = 128;
/// Limit of open connections; some of them wait for events all the time.
const MAX_CONNECTIONS: usize = 64;
const READ_SIZE: usize = 4096;
/// Time limit for connections that were opened before an upgrade.
const UPGRADE_LIMIT: Duration = Duration::from_secs(3600);
const LONGEST_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time limit for a request and its answer.
const PATIENCE: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Sends a request as the owner, or as a member of the group.
    async fn asked(is_owner: bool, request: &Request) -> Response {
        let state = State::new(hawser_control::Role::Client, None);
        let (mut near, far) = UnixStream::pair().unwrap();
        let asking = async {
            let line = hawser_control::encode(request).unwrap();
            near.write_all(&line).await.unwrap();
            let (mut decoder, mut buffer) = (LineDecoder::new(), vec![0; READ_SIZE]);
            let response = loop {
                if let Some(response) = decoder.poll_message::<Response>().unwrap() {
                    break response;
                }
                let read = near.read(&mut buffer).await.unwrap();
                decoder.handle_bytes(&buffer[..read]).unwrap();
            };
            drop(near);
            response
        };
        tokio::join!(asking, converse((far, is_owner), &state)).0
    }

    #[tokio::test]
    async fn a_member_of_the_group_steers_and_does_not_stop_record_or_upgrade() {
        for line in [
            r#"{"request":"stop"}"#,
            r#"{"request":"upgrade"}"#,
            r#"{"request":"recording","offset":0}"#,
            r#"{"request":"read-token"}"#,
            r#"{"request":"invite"}"#,
            r#"{"request":"revoke-peer","key":"k"}"#,
            r#"{"request":"status"}"#,
            r#"{"request":"why"}"#,
            r#"{"request":"history"}"#,
            r#"{"request":"events","after":0}"#,
            r#"{"request":"policy"}"#,
            r#"{"request":"peers"}"#,
            r#"{"request":"set-link","name":"eth0","up":"never"}"#,
            r#"{"request":"set-scheduler","of":"sessions","scheduler":"auto"}"#,
            r#"{"request":"set-gateway","usage":"auto"}"#,
            r#"{"request":"set-transport","transport":"tcp"}"#,
            r#"{"request":"set-profile","profile":"speed"}"#,
            r#"{"request":"add-rule","rule":"only = \"eth0\""}"#,
            r#"{"request":"remove-rule","number":1,"rule":"x"}"#,
        ] {
            let request: Request = serde_json::from_str(line).unwrap();
            let is_refused = asked(false, &request).await == forbidden();
            assert_eq!(is_refused, request.is_for_owner(), "{line}");
        }
        assert_eq!(asked(true, &Request::Stop).await, Response::Stopping);
    }

    #[tokio::test]
    async fn a_socket_is_private_from_when_it_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        private_socket().unwrap().bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[tokio::test]
    async fn the_socket_of_a_daemon_that_died_is_replaced_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let (dead, file) = listen(&path).unwrap();
        std::mem::forget(file);
        drop(dead);
        assert!(path.exists());
        let (listener, file) = listen(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        let (asked, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
        assert!(asked.is_ok() && is_trusted(&accepted.unwrap().0));
        drop(file);
        assert!(!path.exists());
    }
}
