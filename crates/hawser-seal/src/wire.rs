//! TLS records on a socket: one at a time, and never a byte more.

use std::io;
use std::time::Duration;

use rustls::{ConnectionCommon, SideData};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::TlsError;
use super::protocol::{MAX_HANDSHAKE, is_tls_record};

/// The socket, with bytes that were already read from it.
pub(super) struct Wire<'a> {
    stream: &'a mut TcpStream,
    already_read: &'a [u8],
    taken: usize,
}

impl<'a> Wire<'a> {
    pub(super) fn new(stream: &'a mut TcpStream, already_read: &'a [u8]) -> Self {
        Self {
            stream,
            already_read,
            taken: 0,
        }
    }

    /// Reads the next record, header included.
    pub(super) async fn read_record(&mut self) -> Result<Vec<u8>, TlsError> {
        let mut record = vec![0; HEADER];
        // Reads the first byte separately: data that is not TLS may be shorter than a header.
        let (first, rest) = record.split_at_mut(1);
        self.read_exact(first).await?;
        if !is_tls_record(first[0]) {
            return Err(TlsError::NotTls { first: first[0] });
        }
        self.read_exact(rest).await?;
        let body = usize::from(u16::from_be_bytes([record[3], record[4]]));
        if body > MAX_BODY || self.taken + body > MAX_HANDSHAKE {
            return Err(TlsError::TooLong {
                limit: MAX_HANDSHAKE,
            });
        }
        record.resize(HEADER + body, 0);
        self.read_exact(&mut record[HEADER..]).await?;
        Ok(record)
    }

    /// Exchanges records until the handshake is over. Then calls `check`, before sending this
    /// side's last flight.
    pub(super) async fn complete<S: SideData>(
        &mut self,
        connection: &mut ConnectionCommon<S>,
        check: impl Fn(&ConnectionCommon<S>) -> Result<(), TlsError>,
    ) -> Result<(), TlsError> {
        self.flush(connection).await?;
        while connection.is_handshaking() {
            let record = self.read_record().await?;
            if let Err(e) = feed(connection, &record) {
                self.refuse(&pending(connection)).await;
                return Err(e);
            }
            if !connection.is_handshaking() {
                check(connection)?;
            }
            self.flush(connection).await?;
        }
        Ok(())
    }

    /// Sends a client's first flight and reads the server's answer, without the last flight.
    pub(super) async fn hear<S: SideData>(
        &mut self,
        connection: &mut ConnectionCommon<S>,
    ) -> Result<(), TlsError> {
        self.flush(connection).await?;
        while connection.is_handshaking() {
            let record = self.read_record().await?;
            feed(connection, &record)?;
        }
        Ok(())
    }

    /// Writes the pending bytes of TLS.
    async fn flush<S: SideData>(
        &mut self,
        connection: &mut ConnectionCommon<S>,
    ) -> Result<(), TlsError> {
        let bytes = pending(connection);
        if !bytes.is_empty() {
            self.stream.write_all(&bytes).await?;
        }
        Ok(())
    }

    /// Sends the last bytes of a failed handshake, as far as possible.
    ///
    /// Reads and discards the other end's bytes in flight for a moment: closing a socket with
    /// unread data resets the connection, and the reset would overtake the alert.
    pub(super) async fn refuse(&mut self, alert: &[u8]) {
        let farewell = async {
            self.stream.write_all(alert).await?;
            self.stream.shutdown().await?;
            let mut scrap = [0; 1024];
            for _ in 0..MAX_HANDSHAKE / scrap.len() {
                if self.stream.read(&mut scrap).await? == 0 {
                    break;
                }
            }
            io::Result::Ok(())
        };
        match timeout(MAX_FAREWELL, farewell).await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => tracing::debug!(error = %e, "cannot send the alert after a failure"),
            Err(_) => tracing::debug!("peer does not close its end after a failed handshake"),
        }
    }

    /// Checks that all bytes that were read ahead were part of the handshake.
    pub(super) fn expect_all_taken(&self) -> Result<(), TlsError> {
        match self.already_read {
            [] => Ok(()),
            // A client cannot make valid data for this point before it sees the server's flight.
            [first, ..] => Err(TlsError::NotTls { first: *first }),
        }
    }

    async fn read_exact(&mut self, mut buffer: &mut [u8]) -> Result<(), TlsError> {
        self.taken += buffer.len();
        if self.taken > MAX_HANDSHAKE {
            return Err(TlsError::TooLong {
                limit: MAX_HANDSHAKE,
            });
        }
        let ahead = self.already_read.len().min(buffer.len());
        let (now, later) = self.already_read.split_at(ahead);
        buffer[..ahead].copy_from_slice(now);
        self.already_read = later;
        buffer = &mut buffer[ahead..];
        match self.stream.read_exact(buffer).await {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(TlsError::Closed),
            Err(e) => Err(e.into()),
        }
    }
}

/// Feeds a whole record to TLS.
pub(super) fn feed<S: SideData>(
    connection: &mut ConnectionCommon<S>,
    mut record: &[u8],
) -> Result<(), TlsError> {
    while !record.is_empty() {
        if connection.read_tls(&mut record)? == 0 {
            return Err(TlsError::Closed);
        }
        connection.process_new_packets()?;
    }
    Ok(())
}

/// Takes all bytes that TLS wants to send.
pub(super) fn pending<S: SideData>(connection: &mut ConnectionCommon<S>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        // Writing to memory cannot fail; if it did, the handshake would be cut and fail too.
        if connection.write_tls(&mut bytes).is_err() {
            break;
        }
    }
    bytes
}

/// Content type, version, length.
const HEADER: usize = 5;
/// The largest body of a sealed record (RFC 8446 §5.2).
const MAX_BODY: usize = (1 << 14) + 256;
/// Time that a refused peer has to close the connection.
const MAX_FAREWELL: Duration = Duration::from_millis(500);
