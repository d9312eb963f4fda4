//! Fetches a voucher from the name that it is about.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::str;
use std::time::Duration;

use hawser_keys::voucher::{self, Voucher, VoucherError};
use hawser_types::HostName;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::root_certificates::RootCertificates;
use crate::transport::{ByteStream, DialError};

/// Why a voucher can't be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The name's port for HTTPS can't be reached.
    #[error("no connection to port {HTTPS}: {0}")]
    Dial(#[from] DialError),
    /// The TLS handshake failed, or the certificate is not one of this name.
    #[error("TLS: {0}")]
    Tls(#[from] io::Error),
    /// The answer is not HTTP.
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The file does not exist or has moved: redirections are not followed.
    #[error("{PATH}: {0}")]
    Status(StatusCode),
    /// The file is no text.
    #[error("{PATH} is no text")]
    NotText,
    /// The file is not a valid voucher.
    #[error("{PATH}: {0}")]
    Voucher(#[from] VoucherError),
    /// The fetch took too long.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TimedOut,
}

/// Asks `name` for its voucher, over the connection that `dialing` makes to its port for HTTPS.
pub(super) async fn fetch<S: ByteStream>(
    name: &HostName,
    roots: &RootCertificates,
    dialing: impl Future<Output = Result<S, DialError>>,
) -> Result<Voucher, FetchError> {
    let fetching = async {
        let stream = dialing.await?;
        ask(name, roots, stream).await
    };
    timeout(PATIENCE, fetching)
        .await
        .unwrap_or(Err(FetchError::TimedOut))
}

async fn ask<S: ByteStream>(
    name: &HostName,
    roots: &RootCertificates,
    stream: S,
) -> Result<Voucher, FetchError> {
    let text = name.as_str().trim_end_matches('.');
    let server = ServerName::try_from(text.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(roots.tls())
        .connect(server, stream)
        .await?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await?;
    let request = Request::get(PATH)
        .header(HOST, text)
        .header(USER_AGENT, "hawser")
        .header(ACCEPT, "text/plain")
        .header(CONNECTION, "close")
        .body(String::new());
    let request = request.unwrap_or_else(|_| unreachable!("a host name is a valid header value"));
    let exchange = async {
        let answer = sender.send_request(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let bytes = read(answer.into_body()).await?;
        let text = str::from_utf8(&bytes).map_err(|_| FetchError::NotText)?;
        Ok(text.parse()?)
    };
    // An error that ends the connection shows in the exchange.
    let driving = async {
        let _ = connection.await;
        pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        voucher = exchange => voucher,
        never = driving => match never {},
    }
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let data = frame?.into_data().unwrap_or_default();
        if bytes.len() + data.len() > voucher::MAX_LENGTH {
            return Err(VoucherError::TooLong.into());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// The port for HTTPS. A server at another port need not belong to the name's owner.
pub(super) const HTTPS: u16 = 443;
/// Source: RFC 8615 §3.
const PATH: &str = "/.well-known/hawser";
const MAX_HEAD: usize = 16 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);
