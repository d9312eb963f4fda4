use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::io::{AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout};

use super::context::{Context, Guarded, close_gently, in_time};
use super::exchange::{ExchangeContext, Failure, Outcome, Upstream, exchange};
use super::http::{Framing, HeadScanner, RequestHead, Target, parse_request};
use super::intake::{Fault, Intake};
use super::parse::Malformed;
use crate::destination::Destination;
use crate::relay::Side;
use crate::transport::{ByteStream, DialError, Dialer, ResetCode};

pub(super) async fn serve<C: ByteStream, D: Dialer>(
    client: C,
    intake: Intake,
    deadline: Instant,
    context: &Context<D>,
) -> Result<(), Fault> {
    let mut server = HttpServer {
        client: Guarded::new(client),
        intake,
        upstream: None,
        context,
    };
    let mut deadline = Some(deadline);
    while let Some(head) = server.next_request(deadline.take()).await? {
        server.admit(&head).await?;
        let next = match &head.target {
            Target::Tunnel(destination) => {
                return server.tunnel(&head, destination).await;
            }
            Target::Forward { destination, .. } => {
                context
                    .counters
                    .http_requests
                    .fetch_add(1, Ordering::Relaxed);
                server.forward(&head, destination).await?
            }
        };
        match next {
            Next::Request => {}
            Next::Close => break,
            Next::Upgrade => {
                server.upgrade().await;
                return Ok(());
            }
        }
    }
    close_gently(server.client.stream()).await;
    Ok(())
}

struct HttpServer<'a, C: ByteStream, D: Dialer> {
    client: Guarded<C>,
    intake: Intake,
    /// The connection to the server of the last request, if it can be used again.
    upstream: Option<Upstream<D::Stream>>,
    context: &'a Context<D>,
}

/// The next step after a request.
enum Next {
    Request,
    Close,
    Upgrade,
}

impl<C: ByteStream, D: Dialer> HttpServer<'_, C, D> {
    /// Reads the next request; `None` when the client sends no more. `deadline` is given for the
    /// first request on a connection; later requests may take long to begin.
    async fn next_request(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<RequestHead>, Fault> {
        let config = &self.context.config;
        if deadline.is_none() && self.intake.is_empty() {
            self.intake.rest();
            let arrival = self.intake.fill(self.client.stream());
            match timeout(config.keep_alive_timeout, arrival).await {
                Ok(Ok(read)) if read > 0 => {}
                _ => return Ok(None),
            }
        }
        let deadline = deadline.unwrap_or_else(|| Instant::now() + config.handshake_timeout);
        let mut scanner = HeadScanner::new();
        let parse = |bytes: &[u8]| parse_request(&mut scanner, bytes);
        let head = self.intake.read_message(self.client.stream(), parse);
        match in_time(deadline, head).await {
            Ok(head) => Ok(Some(head)),
            Err(fault) => {
                match fault {
                    Fault::Malformed(reason) => {
                        self.answer_last(&malformed_response(reason)).await;
                    }
                    Fault::TooSlow => {
                        let text = "request header not complete in time";
                        self.answer_last(&response(408, "", text, false, true))
                            .await;
                    }
                    Fault::Gone => {}
                }
                Err(fault)
            }
        }
    }

    /// Refuses a request that lacks the user name and the password of this port.
    async fn admit(&mut self, head: &RequestHead) -> Result<(), Fault> {
        let Some(credentials) = &self.context.config.credentials else {
            return Ok(());
        };
        let said = head.proxy_authorization();
        let is_right = |said| self.context.admits(|| credentials.admits_basic(said));
        if said.is_some_and(is_right) {
            return Ok(());
        }
        let text = "this proxy asks for a user name and a password";
        self.answer_last(&response(407, "", text, head.is_head(), true))
            .await;
        // Many clients send no credentials before they are asked.
        Err(match said {
            Some(_) => Fault::Malformed(Malformed::Password),
            None => Fault::Gone,
        })
    }

    async fn tunnel(mut self, head: &RequestHead, destination: &Destination) -> Result<(), Fault> {
        self.context
            .counters
            .http_tunnels
            .fetch_add(1, Ordering::Relaxed);
        let mut server = match self.context.dial(destination).await {
            Ok(server) => server,
            Err(error) => {
                let answer = dial_error_response(error, destination, head, true);
                self.answer_last(&answer).await;
                return Ok(());
            }
        };
        if let Err(fault) = self.answer(TUNNEL_OPEN).await {
            server.reset(ResetCode::Aborted);
            return Err(fault);
        }
        let client = Side {
            stream: self.client.into_stream(),
            early: self.intake.into_unread(),
        };
        self.context.relay(client, server.into()).await;
        Ok(())
    }

    async fn forward(
        &mut self,
        head: &RequestHead,
        destination: &Destination,
    ) -> Result<Next, Fault> {
        if head.max_forwards == Some(0) {
            let answer = match head.method.as_str() {
                "OPTIONS" => response(200, "", "", false, true),
                _ => response(405, "", "the request ends at this proxy", false, true),
            };
            self.answer(&answer).await?;
            return Ok(Next::Close);
        }
        let mut reusable = self.reusable_upstream(head, destination).await;
        loop {
            let is_reused = reusable.is_some();
            let upstream = match reusable.take() {
                Some(upstream) => upstream,
                None => match self.context.dial(destination).await {
                    Ok(stream) => Upstream {
                        stream,
                        intake: Intake::default(),
                        destination: destination.clone(),
                    },
                    Err(error) => return self.refuse(error, destination, head).await,
                },
            };
            match self.exchange(head, upstream).await {
                Ok(outcome) => return Ok(next_after(outcome)),
                // The server closed an idle connection just before it was used again.
                Err(Failure::NoResponse) if is_reused => {}
                Err(failure) => return self.fail(failure, head).await,
            }
        }
    }

    async fn exchange(
        &mut self,
        head: &RequestHead,
        mut upstream: Upstream<D::Stream>,
    ) -> Result<Outcome, Failure> {
        let context = ExchangeContext {
            bytes: &self.context.counters.bytes,
            half_closed_timeout: self.context.config.relay.half_closed_timeout,
        };
        self.client.is_busy = true;
        let client = self.client.stream();
        let result = exchange(client, &mut self.intake, &mut upstream, head, context).await;
        self.client.is_busy = false;
        match result {
            Ok(outcome) if outcome.upstream_reusable || outcome.is_upgraded => {
                upstream.intake.rest();
                self.upstream = Some(upstream);
            }
            Err(Failure::Client(_)) => upstream.stream.reset(ResetCode::Aborted),
            _ => {}
        }
        result
    }

    /// Returns the last connection, if this request may use it. A request that cannot be repeated
    /// must not: if the server is just closing the connection, the client cannot know whether the
    /// server has acted on the request.
    async fn reusable_upstream(
        &mut self,
        head: &RequestHead,
        destination: &Destination,
    ) -> Option<Upstream<D::Stream>> {
        let mut upstream = self.upstream.take()?;
        if upstream.destination != *destination || !head.is_repeatable() {
            return None;
        }
        is_quiet(&mut upstream.stream).await.then_some(upstream)
    }

    async fn refuse(
        &mut self,
        error: DialError,
        destination: &Destination,
        head: &RequestHead,
    ) -> Result<Next, Fault> {
        // With a request body in flight, the next request could not be found.
        let close = !head.persistent || head.framing != Framing::None;
        let answer = dial_error_response(error, destination, head, close);
        self.answer(&answer).await?;
        Ok(if close { Next::Close } else { Next::Request })
    }

    async fn fail(&mut self, failure: Failure, head: &RequestHead) -> Result<Next, Fault> {
        let (kind, text) = match failure {
            Failure::Client(fault) => return Err(fault),
            Failure::Cut(code) => {
                self.client.stream().reset(code);
                return Err(Fault::Gone);
            }
            Failure::NoResponse => (
                "http_response_incomplete",
                "the server closed the connection without a response".to_owned(),
            ),
            Failure::BadResponse(reason) => {
                self.context.counters.malformed_responses.add(reason);
                let text = format!("the server's response cannot be understood: {reason}");
                ("http_protocol_error", text)
            }
        };
        let answer = response(502, kind, &text, head.is_head(), true);
        self.answer(&answer).await?;
        Ok(Next::Close)
    }

    async fn upgrade(mut self) {
        if let Some(upstream) = self.upstream.take() {
            let client = Side {
                stream: self.client.into_stream(),
                early: self.intake.into_unread(),
            };
            let server = Side {
                stream: upstream.stream,
                early: upstream.intake.into_unread(),
            };
            self.context.relay(client, server).await;
        }
    }

    async fn answer(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let client = self.client.stream();
        client.write_all(bytes).await.map_err(|_| Fault::Gone)
    }

    async fn answer_last(&mut self, bytes: &[u8]) {
        if self.answer(bytes).await.is_ok() {
            close_gently(self.client.stream()).await;
        }
    }
}

fn next_after(outcome: Outcome) -> Next {
    match outcome {
        Outcome {
            is_upgraded: true, ..
        } => Next::Upgrade,
        Outcome {
            client_reusable: true,
            ..
        } => Next::Request,
        _ => Next::Close,
    }
}

/// True if an idle connection is still open: neither ended, nor failed, nor sending unrequested
/// bytes.
async fn is_quiet<S: ByteStream>(stream: &mut S) -> bool {
    std::future::poll_fn(|cx| {
        let mut byte = [0];
        let read = Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
        Poll::Ready(read.is_pending())
    })
    .await
}

fn malformed_response(reason: Malformed) -> Vec<u8> {
    let status = match reason {
        Malformed::HeaderTooLarge => 431,
        Malformed::Scheme | Malformed::TransferCoding => 501,
        Malformed::Version => 505,
        _ => 400,
    };
    response(status, "", &reason.to_string(), false, true)
}

fn dial_error_response(
    error: DialError,
    destination: &Destination,
    head: &RequestHead,
    close: bool,
) -> Vec<u8> {
    // The error types are those of RFC 9209 §2.3.
    let (status, kind) = match error {
        DialError::RefusedByPolicy => (403, "destination_ip_prohibited"),
        DialError::TimedOut => (504, "connection_timeout"),
        DialError::ResolverUnavailable => (504, "dns_timeout"),
        DialError::LimitReached => (503, "connection_limit_reached"),
        DialError::NameNotFound => (502, "dns_error"),
        DialError::ConnectionRefused => (502, "connection_refused"),
        DialError::HostUnreachable | DialError::NetworkUnreachable => {
            (502, "destination_ip_unroutable")
        }
        DialError::GatewayUnavailable => (502, "destination_unavailable"),
        DialError::Aborted | DialError::Internal | DialError::MalformedDestination => {
            (502, "proxy_internal_error")
        }
    };
    let text = match remedy(error) {
        Some(remedy) => format!("{destination}: {error}; {remedy}"),
        None => format!("{destination}: {error}"),
    };
    response(status, kind, &text, head.is_head(), close)
}

/// Returns advice for the user.
fn remedy(error: DialError) -> Option<&'static str> {
    match error {
        DialError::RefusedByPolicy => Some(
            "a gateway leads to public addresses only, unless it was started with `hawser serve \
             --allow-destination NETWORK`; a name leads to this machine only if /etc/hosts says so",
        ),
        DialError::LimitReached => Some("too much is open at once: `hawser streams` shows what"),
        DialError::GatewayUnavailable => Some("`hawser status` says why"),
        DialError::ResolverUnavailable => Some("`hawser doctor` says which links work"),
        _ => None,
    }
}

/// Builds a response of the proxy itself with one line of text.
fn response(status: u16, kind: &str, text: &str, to_head: bool, close: bool) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Bad Gateway",
    };
    let body = match text {
        "" => String::new(),
        text => format!("{text}\n"),
    };
    let length = body.len();
    let mut out = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\n"
    );
    if status == 407 {
        out += CHALLENGE;
    }
    if !kind.is_empty() {
        out += &format!("Proxy-Status: hawser; error={kind}\r\n");
    }
    if close {
        out += "Connection: close\r\n";
    }
    out += "\r\n";
    if !to_head {
        out += &body;
    }
    out.into_bytes()
}

/// Source: RFC 9110 §11.7.1, RFC 7617 §2.
const CHALLENGE: &str = "Proxy-Authenticate: Basic realm=\"hawser\", charset=\"UTF-8\"\r\n";
const TUNNEL_OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
