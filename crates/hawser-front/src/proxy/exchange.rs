//! One HTTP request and its response, both ways at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::time::sleep;

use super::http::{
    Body, Framing, HeadScanner, RequestHead, ResponseHead, Run, Version, parse_response,
};
use super::intake::{Fault, Intake};
use super::parse::Malformed;
use crate::destination::Destination;
use crate::relay::RelayCounters;
use crate::transport::{ByteStream, ResetCode};

/// A connection to a server.
pub(super) struct Upstream<S> {
    pub(super) stream: S,
    pub(super) intake: Intake,
    pub(super) destination: Destination,
}

/// How the connections can be used after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The client may send its next request.
    pub(super) client_reusable: bool,
    /// The next request may be sent to the server.
    pub(super) upstream_reusable: bool,
    /// Both connections belong to another protocol now.
    pub(super) is_upgraded: bool,
}

/// State and settings of the port that an exchange needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeContext<'a> {
    pub(super) bytes: &'a RelayCounters,
    /// How long a client that has ended its half waits for a response to begin.
    pub(super) half_closed_timeout: Option<Duration>,
}

/// State that the two directions of an exchange share.
#[derive(Debug, Default)]
struct Progress {
    /// The whole request has been sent.
    is_sent: AtomicBool,
    /// The final response has begun.
    is_answered: AtomicBool,
}

/// How an exchange failed, which decides what the client can still be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The client went away or broke the protocol.
    Client(Fault),
    /// The server ended the connection without having sent a byte of a response.
    NoResponse,
    /// The server's response cannot be understood; nothing of it has reached the client.
    BadResponse(Malformed),
    /// The response broke off.
    Cut(ResetCode),
}

/// Sends the request, body included, and forwards the response.
///
/// Both directions run at once: an answer may come before the request is complete, and a client
/// may wait for `100 Continue`.
pub(super) async fn exchange<C: ByteStream, S: ByteStream>(
    client: &mut C,
    client_intake: &mut Intake,
    upstream: &mut Upstream<S>,
    head: &RequestHead,
    context: ExchangeContext<'_>,
) -> Result<Outcome, Failure> {
    let bytes = context.bytes;
    let (mut client_read, mut client_write) = split(client);
    let (mut server_read, mut server_write) = split(&mut upstream.stream);
    let progress = Progress::default();
    let upload = async {
        let result = upload(
            &mut client_read,
            client_intake,
            &mut server_write,
            head,
            bytes,
        )
        .await;
        progress.is_sent.store(result.is_ok(), Ordering::Relaxed);
        result?;
        let patience = context.half_closed_timeout;
        watch(&mut client_read, client_intake, patience, &progress).await
    };
    let download = download(
        &mut server_read,
        &mut upstream.intake,
        &mut client_write,
        head,
        &progress,
        bytes,
    );
    tokio::pin!(upload, download);
    let mut is_uploading = true;
    loop {
        tokio::select! {
            biased;
            outcome = &mut download => return outcome,
            Err(fault) = &mut upload, if is_uploading => match fault {
                PumpFault::Reader(_) => return Err(Failure::Client(Fault::Gone)),
                PumpFault::Malformed(reason) => {
                    return Err(Failure::Client(Fault::Malformed(reason)));
                }
                // The server may have sent an error response before it stopped reading.
                PumpFault::Writer => is_uploading = false,
            },
        }
    }
}

async fn upload<R, W>(
    client: &mut R,
    intake: &mut Intake,
    server: &mut W,
    head: &RequestHead,
    bytes: &RelayCounters,
) -> Result<(), PumpFault>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let header = head.forward();
    let sent = server.write_all(&header).await;
    sent.map_err(|_| PumpFault::Writer)?;
    bytes.add_up(header.len());
    let count = |written| bytes.add_up(written);
    let body = Body::new(head.framing);
    pump(client, intake, server, body, Chunks::Kept, count).await
}

/// Detects that a client aborts while it waits for its response. Bytes that it sends meanwhile are
/// its next request. An end of file may be the end of its requests, or the only sign of a client
/// that has given up: then a silent server is waited for only for `patience`.
async fn watch<R: AsyncRead + Unpin>(
    client: &mut R,
    intake: &mut Intake,
    patience: Option<Duration>,
    progress: &Progress,
) -> Result<(), PumpFault> {
    while intake.unread().len() < MAX_PIPELINED {
        match intake.fill(client).await {
            Ok(0) => {
                let Some(patience) = patience else { break };
                sleep(patience).await;
                if progress.is_answered.load(Ordering::Relaxed) {
                    // Writing will show whether the client is still there.
                    break;
                }
                return Err(PumpFault::Reader(ResetCode::IdleTimeout));
            }
            Ok(_) => {}
            Err(error) => return Err(PumpFault::Reader(ResetCode::from_io(&error))),
        }
    }
    std::future::pending().await
}

async fn download<R, W>(
    server: &mut R,
    intake: &mut Intake,
    client: &mut W,
    head: &RequestHead,
    progress: &Progress,
    bytes: &RelayCounters,
) -> Result<Outcome, Failure>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let response = final_response(server, intake, client, head).await?;
    if response.is_upgrade() && head.upgrade.is_none() {
        return Err(Failure::BadResponse(Malformed::Header));
    }
    progress.is_answered.store(true, Ordering::Relaxed);
    let is_sent = progress.is_sent.load(Ordering::Relaxed);
    let chunks = match head.version {
        Version::Http11 => Chunks::Kept,
        Version::Http10 => Chunks::Removed,
    };
    let until_close = match response.framing {
        Framing::UntilClose => true,
        Framing::Chunked => chunks == Chunks::Removed,
        Framing::None | Framing::Length(_) => false,
    };
    // After an early answer, the rest of the request cannot be told from the next request.
    let client_reusable = head.persistent && is_sent && !until_close;
    let header = response.forward(!client_reusable, chunks == Chunks::Kept);
    client
        .write_all(&header)
        .await
        .map_err(|_| Failure::Client(Fault::Gone))?;
    bytes.add_down(header.len());
    let count = |written| bytes.add_down(written);
    let body = Body::new(response.framing);
    match pump(server, intake, client, body, chunks, count).await {
        Ok(()) => Ok(Outcome {
            client_reusable,
            upstream_reusable: is_sent && response.persistent && intake.is_empty(),
            is_upgraded: response.is_upgrade(),
        }),
        Err(PumpFault::Writer) => Err(Failure::Client(Fault::Gone)),
        Err(PumpFault::Reader(code)) => Err(Failure::Cut(code)),
        Err(PumpFault::Malformed(_)) => Err(Failure::Cut(ResetCode::ProtocolViolation)),
    }
}

/// Reads the header of the final response and forwards interim ones.
async fn final_response<R, W>(
    server: &mut R,
    intake: &mut Intake,
    client: &mut W,
    head: &RequestHead,
) -> Result<ResponseHead, Failure>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let client_gone = |_: io::Error| Failure::Client(Fault::Gone);
    loop {
        let mut scanner = HeadScanner::new();
        let parse = |bytes: &[u8]| parse_response(&mut scanner, bytes, head.is_head());
        let response = match intake.read_message(server, parse).await {
            Ok(response) => response,
            Err(Fault::Malformed(reason)) => return Err(Failure::BadResponse(reason)),
            Err(_) => return Err(Failure::NoResponse),
        };
        if !response.is_interim() {
            return Ok(response);
        }
        // HTTP/1.0 knows no interim responses.
        if head.version == Version::Http11 {
            let header = response.forward(false, true);
            client.write_all(&header).await.map_err(client_gone)?;
            client.flush().await.map_err(client_gone)?;
        }
    }
}

/// Whether the delimiters of chunks are forwarded with their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunks {
    Kept,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PumpFault {
    Reader(ResetCode),
    Writer,
    Malformed(Malformed),
}

/// Forwards a body to its end.
async fn pump<R, W>(
    reader: &mut R,
    intake: &mut Intake,
    writer: &mut W,
    mut body: Body,
    chunks: Chunks,
    count: impl Fn(usize),
) -> Result<(), PumpFault>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        while !intake.is_empty() && !body.is_done() {
            let (skipped, forwarded) = next_run(&mut body, intake.unread(), chunks)?;
            intake.consume(skipped);
            let run = intake.unread().get(..forwarded).unwrap_or_default();
            writer.write_all(run).await.map_err(|_| PumpFault::Writer)?;
            count(forwarded);
            intake.consume(forwarded);
        }
        writer.flush().await.map_err(|_| PumpFault::Writer)?;
        if body.is_done() {
            return Ok(());
        }
        match intake.fill(reader).await {
            Ok(0) if body.may_end() => return Ok(()),
            Ok(0) => return Err(PumpFault::Malformed(Malformed::Truncated)),
            Ok(_) => {}
            Err(error) => return Err(PumpFault::Reader(ResetCode::from_io(&error))),
        }
    }
}

/// Returns how many bytes to skip, and how many to forward after them; not both 0.
fn next_run(body: &mut Body, bytes: &[u8], chunks: Chunks) -> Result<(usize, usize), PumpFault> {
    let mut forwarded = 0;
    while let Some(rest @ [_, ..]) = bytes.get(forwarded..) {
        match body.advance(rest).map_err(PumpFault::Malformed)? {
            Run::End => break,
            Run::Content(length) => forwarded += length,
            Run::Delimiter(length) if chunks == Chunks::Kept => forwarded += length,
            // Content before the delimiter would have been a run by itself.
            Run::Delimiter(length) => return Ok((length, 0)),
        }
        if chunks == Chunks::Removed {
            break;
        }
    }
    Ok((0, forwarded))
}

/// A client that sends more than this ahead of its responses has to wait.
const MAX_PIPELINED: usize = 64 * 1024;
