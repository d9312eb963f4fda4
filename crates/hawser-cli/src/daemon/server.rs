//! The control socket: one line of JSON asks, one line answers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_control::{ErrorReason, LineDecoder, LinkChange, Request, Response, encode_response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::recording::Copy;
use super::{Shared, why};
use crate::placed::Which;

/// The socket's name in the file system, which goes with the daemon.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the socket at `path`, mode 0600, in place of what a daemon that died has left there.
///
/// Only the holder of the directory's lock may call this.
pub(super) fn listen(path: &Path) -> anyhow::Result<(UnixListener, SocketFile)> {
    // Under another name first: nobody shall find it before its mode is right.
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let open = || -> std::io::Result<UnixListener> {
        let listener = UnixListener::bind(&fresh)?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&fresh, path)?;
        Ok(listener)
    };
    let listener = open()
        .with_context(|| format!("can't open the control socket {}", path.display()))
        .inspect_err(|_| drop(std::fs::remove_file(&fresh)))?;
    Ok((listener, SocketFile(path.to_path_buf())))
}

/// Answers for as long as the daemon lives.
pub(super) async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Others wait in the socket's queue until there is a place.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) if is_trusted(&stream) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let _place = place;
                    if timeout(PATIENCE, converse(stream, &shared)).await.is_err() {
                        tracing::debug!("a control connection has had its time");
                    }
                });
            }
            Ok(_) => tracing::warn!("another user asks at the control socket and is refused"),
            Err(error) => {
                tracing::warn!(%error, "can't accept control connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether it is the daemon's own user, or root, who asks.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(mut stream: UnixStream, shared: &Shared) -> std::io::Result<()> {
    let mut decoder = LineDecoder::new();
    let mut buffer = vec![0; READ_SIZE];
    let mut copy = Copy::default();
    loop {
        let response = match decoder.poll_message::<Request>() {
            Ok(None) => {
                let read = stream.read(&mut buffer).await?;
                let bytes = buffer.get(..read).unwrap_or_default();
                if bytes.is_empty() {
                    return Ok(());
                }
                if let Err(error) = decoder.handle_bytes(bytes) {
                    return say(&mut stream, &malformed(&error)).await;
                }
                continue;
            }
            Ok(Some(request)) => answer(&request, shared, &mut copy),
            Err(error) => return say(&mut stream, &malformed(&error)).await,
        };
        say(&mut stream, &response).await?;
        if response == Response::Stopping {
            shared.stop.notify_one();
        }
    }
}

fn answer(request: &Request, shared: &Shared, copy: &mut Copy) -> Response {
    match request {
        Request::Status => Response::Status(Box::new(shared.status())),
        Request::Why {
            connection: Some(number),
            ..
        } => why::answer_placed(shared, Which::One(*number)),
        Request::Why {
            connections: Some(count),
            ..
        } => {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            why::answer_placed(shared, Which::Latest(count.min(MAX_PLACED)))
        }
        Request::Why {
            session, stream, ..
        } => why::answer(shared, session.as_deref(), *stream),
        Request::Recording {
            session,
            destinations,
            offset,
        } => copy.answer(shared, session.as_deref(), *destinations, *offset),
        Request::Stop => Response::Stopping,
        Request::SetLink(change) => set_link(shared, change),
        _ => Response::Error {
            reason: ErrorReason::Unsupported,
            message: "invites and peers are in the state directory's files: `hawser invite` and \
                      `hawser peers` work on them"
                .to_owned(),
        },
    }
}

fn set_link(shared: &Shared, change: &LinkChange) -> Response {
    let Some(name) = hawser_config::read_link_name(&change.name) else {
        return Response::Error {
            reason: ErrorReason::NotFound,
            message: "no interface can have this name".to_owned(),
        };
    };
    let subject = shared.subject.get();
    match subject.is_some_and(|subject| subject.set_link(&name, change.up, change.down)) {
        true => Response::Done { saved: None },
        false => Response::Error {
            reason: ErrorReason::Unsupported,
            message: "only `hawser up`, once it has connected, has links to choose from".to_owned(),
        },
    }
}

fn malformed(error: &hawser_control::CodecError) -> Response {
    Response::Error {
        reason: ErrorReason::Malformed,
        message: error.to_string(),
    }
}

async fn say(stream: &mut UnixStream, response: &Response) -> std::io::Result<()> {
    match encode_response(response) {
        Ok(line) => stream.write_all(&line).await,
        Err(error) => {
            tracing::warn!(%error, "an answer can't be encoded");
            Err(std::io::ErrorKind::InvalidData.into())
        }
    }
}

const MAX_CONNECTIONS: usize = 16;
/// Connections in one answer.
const MAX_PLACED: usize = 256;
const READ_SIZE: usize = 4096;
/// For a whole conversation.
const PATIENCE: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_of_a_daemon_that_died_is_replaced_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let (dead, file) = listen(&path).unwrap();
        std::mem::forget(file);
        drop(dead);
        assert!(path.exists());
        let (listener, file) = listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (asked, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
        assert!(asked.is_ok() && is_trusted(&accepted.unwrap().0));
        drop(file);
        assert!(!path.exists());
    }
}
