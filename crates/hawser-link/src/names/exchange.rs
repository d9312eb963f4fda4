//! One question to one server over one link.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use hawser_wire::dns::{DnsAnswer, DnsQuestion, set_dns_id};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::time::{sleep, timeout};

use crate::bind::{self, ConnectError, DatagramSocket, SocketOptions};
use crate::links::Link;

/// A server's answer to a question.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The message as received, with the ID of the question.
    pub(super) message: Vec<u8>,
    pub(super) answer: DnsAnswer,
}

/// Sends the message `query`, whose question is `question`, over a link or by the system's routes;
/// uses TCP if the answer does not fit a datagram. Returns `None` if the server cannot be reached
/// or does not answer.
pub(super) async fn exchange(
    link: Option<&Link>,
    server: SocketAddr,
    query: &[u8],
    question: &DnsQuestion,
) -> Option<Reply> {
    // Replaces the application's ID, so that an attacker cannot guess the ID of a forged answer.
    let mut id = [0; 2];
    SystemRandom::new().fill(&mut id).ok()?;
    let id = u16::from_be_bytes(id);
    let mut query = query.to_vec();
    set_dns_id(&mut query, id);
    let mut asked = question.clone();
    asked.id = id;
    let by_datagram = timeout(PATIENCE, by_datagram(link, server, &query, &asked));
    let mut reply = match by_datagram.await.ok()? {
        Ok(reply) => reply,
        Err(error) => {
            let link = link.map(|link| link.name.as_str());
            tracing::debug!(link, %server, %error, "cannot reach a name server");
            return None;
        }
    };
    if reply.answer.is_truncated {
        let over_tcp = timeout(PATIENCE, over_tcp(link, server, &query, &asked));
        // Where TCP is blocked, a truncated answer is better than none.
        if let Ok(Some(whole)) = over_tcp.await {
            reply = whole;
        }
    }
    set_dns_id(&mut reply.message, question.id);
    Some(reply)
}

/// Sends `message` to a server unchanged, and returns the first datagram with its ID. For messages
/// that are not questions.
pub(super) async fn pass_on(server: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
    let number: [u8; 2] = *message.first_chunk()?;
    let socket = DatagramSocket::open(None, server.ip()).ok()?;
    socket.connect(server).ok()?;
    socket.send(message).ok()?;
    let mut bytes = vec![0; MAX_DATAGRAM];
    let waiting = async {
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            poll_fn(|cx| socket.poll_receive(cx, &mut buffer))
                .await
                .ok()?;
            if buffer.filled().first_chunk() == Some(&number) {
                return Some(buffer.filled().to_vec());
            }
        }
    };
    timeout(PATIENCE, waiting).await.ok().flatten()
}

async fn by_datagram(
    link: Option<&Link>,
    server: SocketAddr,
    query: &[u8],
    question: &DnsQuestion,
) -> Result<Reply, ConnectError> {
    let failed = |error| ConnectError::from_connect(link, server, error);
    let socket = DatagramSocket::open(link, server.ip())?;
    socket.connect(server).map_err(failed)?;
    let mut pauses = PAUSES.iter();
    socket.send(query).map_err(failed)?;
    let mut bytes = vec![0; MAX_DATAGRAM];
    loop {
        let pause = pauses.as_slice().first();
        let mut buffer = ReadBuf::new(&mut bytes);
        tokio::select! {
            received = poll_fn(|cx| socket.poll_receive(cx, &mut buffer)) => {
                received.map_err(failed)?;
                let message = buffer.filled();
                // An invalid message may be a forgery; the right answer may still arrive.
                if let Ok(Some(mut answer)) = question.decode_answer(message) {
                    answer.is_truncated |= message.len() == MAX_DATAGRAM;
                    return Ok(Reply { message: message.to_vec(), answer });
                }
            }
            () = sleep(pause.copied().unwrap_or(PATIENCE)) => {
                pauses.next();
                socket.send(query).map_err(failed)?;
            }
        }
    }
}

async fn over_tcp(
    link: Option<&Link>,
    server: SocketAddr,
    query: &[u8],
    question: &DnsQuestion,
) -> Option<Reply> {
    let options = SocketOptions::default();
    let mut stream = bind::connect_on_link(link, server, &options).await.ok()?;
    let mut out = u16::try_from(query.len()).ok()?.to_be_bytes().to_vec();
    out.extend_from_slice(query);
    stream.write_all(&out).await.ok()?;
    let mut message = vec![0; usize::from(stream.read_u16().await.ok()?)];
    stream.read_exact(&mut message).await.ok()?;
    let answer = question.decode_answer(&message).ok()??;
    Some(Reply { message, answer })
}

/// Time for one try, by datagrams or over TCP.
const PATIENCE: Duration = Duration::from_millis(2500);
/// Pauses before the question is sent again.
const PAUSES: [Duration; 2] = [Duration::from_millis(400), Duration::from_millis(800)];
/// Longest datagram; a larger answer is requested over TCP.
const MAX_DATAGRAM: usize = 4096;
