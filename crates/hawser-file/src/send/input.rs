//! Output of a program, as a file whose size is known only at its end.

use std::io::{self, Read};
use std::thread;
use std::time::SystemTime;

use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::{Outgoing, Sent, out_of_turn};
use crate::content::{BlockGrid, HASH_BUFFER_BYTES};
use crate::entry_path::EntryPath;
use crate::error::SendError;
use crate::progress::Phase;
use crate::wire::{Answer, Fault, FileTime, Kind, Offer, Trailer};

impl<S: AsyncRead + AsyncWrite + Send> Outgoing<'_, S> {
    /// Sends an input to its end.
    pub(super) async fn input<R: Read + Send + 'static>(
        &mut self,
        path: &EntryPath,
        open: impl FnOnce() -> R,
    ) -> Result<Sent, SendError> {
        let offer = Offer {
            path: path.clone(),
            kind: Kind::Input,
            size: ByteCount::ZERO,
            modified: now(),
            mode: INPUT_MODE,
            guard: [0; 32],
        };
        self.progress.begin(path, None);
        self.offer(&offer).await?;
        match self.answers.next().await? {
            Answer::Want(_) => {}
            Answer::Refused { refusal, detail } => {
                return Err(SendError::Refused { refusal, detail });
            }
            Answer::Finished { .. } => return Err(Fault::Unexpected.into()),
        }
        let mut pieces = read(open()).map_err(SendError::Input)?;
        let mut hasher = blake3::Hasher::new();
        loop {
            let piece = tokio::select! {
                biased;
                early = self.answers.next() => return Err(out_of_turn(early)),
                piece = pieces.recv() => piece,
            };
            // After an error the stream gets no end, so the receiver knows that data is missing.
            let Some(piece) = piece.transpose().map_err(SendError::Input)? else {
                break;
            };
            hasher.update(&piece);
            self.write(&piece).await?;
            self.transferred += piece.len() as u64;
            self.size = ByteCount::new(self.transferred);
            self.show(Phase::Transferring, self.transferred);
        }
        let hash = hasher.finalize();
        let trailer = Trailer::Unchanged(vec![*hash.as_bytes()]);
        self.write(&trailer.encode(BlockGrid::for_size(0))).await?;
        if let Err(error) = self.writer.shutdown().await {
            return Err(self.reason(error).await);
        }
        match self.answers.next().await? {
            Answer::Finished {
                already_there,
                hash: theirs,
            } => self.finished(already_there, theirs, Some(hash)).await,
            Answer::Refused { refusal, detail } => Err(SendError::Refused { refusal, detail }),
            Answer::Want(_) => Err(Fault::Unexpected.into()),
        }
    }
}

/// Reads in a thread that is never joined: an input may be silent for ever.
fn read(mut input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (pieces, read) = mpsc::channel(READ_AHEAD_PIECES);
    let work = move || {
        loop {
            let mut piece = vec![0; HASH_BUFFER_BYTES];
            let piece = match input.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => {
                    piece.truncate(length);
                    Ok(piece)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("hawser-input".to_owned())
        .spawn(work)?;
    Ok(read)
}

/// Returns the time of the file, which also distinguishes this input from others of the same name.
fn now() -> FileTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    FileTime {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Permission bits of the file, before the receiver's umask.
const INPUT_MODE: u32 = 0o666;
/// Pieces that may be read ahead of the stream: 4 MiB at most.
const READ_AHEAD_PIECES: usize = 16;
