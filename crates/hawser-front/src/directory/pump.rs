//! One connection of a directory.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_link::bind::{SocketOptions, connect_on_link};
use hawser_sip::transaction::Flow;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::input::Input;
use super::tls::DirectoryTls;

/// Moves bytes between one connection and the directory's thread.
pub(super) struct Pump {
    pub(super) flow: Flow,
    /// Bytes to write. The connection ends when the sender is dropped.
    pub(super) writes: mpsc::Receiver<Bytes>,
    pub(super) inputs: mpsc::Sender<Input>,
}

impl Pump {
    /// Serves an accepted connection.
    pub(super) async fn serve(self, stream: TcpStream, tls: Option<DirectoryTls>) {
        let Some(DirectoryTls(config)) = tls else {
            return self.run(Ok(stream)).await;
        };
        let handshake = tokio_rustls::TlsAcceptor::from(config).accept(stream);
        let stream = timeout(PATIENCE, handshake).await;
        self.run(stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
            .await;
    }

    /// Connects, and serves the connection.
    pub(super) async fn connect(self, to: SocketAddr) {
        let options = SocketOptions {
            connect_timeout: PATIENCE,
            ..SocketOptions::default()
        };
        let stream = connect_on_link(None, to, &options).await;
        self.run(stream.map_err(io::Error::other)).await;
    }

    async fn run<S: AsyncRead + AsyncWrite>(mut self, stream: io::Result<S>) {
        if let Err(error) = self.exchange(stream).await {
            tracing::debug!(flow = self.flow.number, %error, "directory connection ended");
        }
        let flow = self.flow;
        // The receiver is gone if the directory has ended as well.
        let _ = self.inputs.send(Input::Closed { flow }).await;
    }

    async fn exchange<S: AsyncRead + AsyncWrite>(
        &mut self,
        stream: io::Result<S>,
    ) -> io::Result<()> {
        let (mut reading, mut writing) = tokio::io::split(stream?);
        let mut buffer = vec![0; READ_SIZE];
        loop {
            tokio::select! {
                read = reading.read(&mut buffer) => {
                    let bytes = match read? {
                        0 => return Ok(()),
                        length => Bytes::copy_from_slice(&buffer[..length]),
                    };
                    let flow = self.flow;
                    if self.inputs.send(Input::Bytes { flow, bytes }).await.is_err() {
                        return Ok(());
                    }
                }
                bytes = self.writes.recv() => match bytes {
                    Some(bytes) => timeout(PATIENCE, async {
                        writing.write_all(&bytes).await?;
                        writing.flush().await
                    }).await??,
                    None => return timeout(PATIENCE, writing.shutdown()).await?,
                },
            }
        }
    }
}

const READ_SIZE: usize = 4096;
/// Time for the far end to answer, or to read what was sent.
const PATIENCE: Duration = Duration::from_secs(10);
