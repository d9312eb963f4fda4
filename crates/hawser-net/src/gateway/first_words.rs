//! Decides, by the client's first bytes, whose a connection is at a port that the gateway shares
//! with a service.
//!
//! Nothing is taken off the connection, so the service receives all bytes.

use std::time::Duration;

use hawser_wire::{JOIN_PRELUDE_LENGTH, JoinPrelude};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use hawser_seal::is_our_hello;

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The client speaks the gateway's protocol.
    Gateway,
    /// The client speaks another protocol.
    Service,
    /// The client has closed the connection before it sent anything.
    Unclaimed,
}

/// Decides whose the connection is: the service's if the client sends too little in [`PATIENCE`],
/// since the client then waits for the service to speak first.
pub(super) async fn judge_first(stream: &TcpStream) -> Whose {
    let listening = async {
        let mut words = [0; MAX_WORDS];
        loop {
            let Ok(length) = stream.peek(&mut words).await else {
                return Whose::Unclaimed;
            };
            let said = words.get(..length).unwrap_or_default();
            if let Some(whose) = judge(said) {
                return whose;
            }
            // Peeked bytes stay in the socket, which does not report further ones then.
            sleep(LOOK_AGAIN).await;
        }
    };
    timeout(PATIENCE, listening).await.unwrap_or(Whose::Service)
}

/// Decides whose the connection is that begins with `said`; `None` while the owner is not known
/// yet, at most for 2048 bytes. Empty bytes mean that the client sends nothing more.
pub fn judge(said: &[u8]) -> Option<Whose> {
    let ours = |is_ours| {
        if is_ours {
            Whose::Gateway
        } else {
            Whose::Service
        }
    };
    match said {
        [] => Some(Whose::Unclaimed),
        [HANDSHAKE, rest @ ..] => match rest {
            [_, _, high, low, ..] => {
                let length = TLS_HEADER + usize::from(u16::from_be_bytes([*high, *low]));
                match said.get(..length) {
                    Some(hello) => Some(ours(is_our_hello(hello))),
                    // Hellos of this protocol are shorter by far.
                    None if length > MAX_WORDS => Some(Whose::Service),
                    None => None,
                }
            }
            _ => None,
        },
        [JoinPrelude::FIRST_BYTE, ..] => match said.first_chunk::<JOIN_PRELUDE_LENGTH>() {
            // Joins of all sessions: a join of an unknown session is refused as at any port.
            Some(prelude) => Some(ours(JoinPrelude::decode(prelude).is_some())),
            None if JoinPrelude::may_begin(said) => None,
            None => Some(Whose::Service),
        },
        _ => Some(Whose::Service),
    }
}

/// Content type of the TLS record that a ClientHello is in.
const HANDSHAKE: u8 = 22;
const TLS_HEADER: usize = 5;
/// A hello of this protocol has a few hundred bytes.
const MAX_WORDS: usize = 2048;
/// Time for the first bytes. A client of this protocol sends them at once.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use hawser_types::{ChannelId, SessionId};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use hawser_keys::identity::Identity;
    use hawser_seal::TlsClient;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await;
        (client.unwrap(), listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn a_hello_of_this_protocol_is_ours_once_it_is_whole() {
        let (client, server) = pair().await;
        let me = Identity::from_seed([1; 32]);
        let tls = TlsClient::new(&me, Identity::from_seed([2; 32]).public()).unwrap();
        let greeting = tokio::spawn(async move { tls.handshake(client).await.is_ok() });
        assert_eq!(judge_first(&server).await, Whose::Gateway);
        let mut hello = vec![0; MAX_WORDS];
        let length = server.peek(&mut hello).await.unwrap();
        let hello = &hello[..length];
        assert_eq!(judge(hello), Some(Whose::Gateway));
        for end in 1..length {
            assert_eq!(judge(&hello[..end]), None, "{end}");
        }
        // Another protocol of the same length.
        let at = hello.windows(8).position(|it| it == b"hawser/1").unwrap();
        let mut other = hello.to_vec();
        other[at] = b'x';
        assert_eq!(judge(&other), Some(Whose::Service));
        drop(server);
        assert!(!greeting.await.unwrap());
    }

    #[test]
    fn a_join_is_ours() {
        let prelude = JoinPrelude {
            session: SessionId::new([1; 16]),
            channel: ChannelId::new(3),
        };
        let prelude = prelude.encode();
        assert_eq!(judge(&prelude), Some(Whose::Gateway));
        assert_eq!(judge(&prelude[..9]), None);
        assert_eq!(judge(b"HEAD / HTTP/1.1\r\n\r\n"), Some(Whose::Service));
        assert_eq!(judge(b"HW"), None);
    }

    #[test]
    fn all_else_is_the_services() {
        for said in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-", &[0; 40]] {
            assert_eq!(judge(said), Some(Whose::Service), "{said:?}");
        }
        // A hello that is longer than ours ever is, and records that contain no hello.
        assert_eq!(judge(&[22, 3, 1, 8, 0]), Some(Whose::Service));
        assert_eq!(judge(&[22, 3, 1, 0, 0]), Some(Whose::Service));
        let no_hello = judge(&[22, 3, 1, 0, 4, 1, 2, 3, 4]);
        assert_eq!(no_hello, Some(Whose::Service));
        assert_eq!(judge(&[22, 3, 1]), None);
    }

    #[tokio::test]
    async fn a_client_that_waits_for_the_service_to_speak_is_the_services() {
        let (mut client, server) = pair().await;
        assert_eq!(judge_first(&server).await, Whose::Service);
        client.write_all(b"H").await.unwrap();
        server.readable().await.unwrap();
        assert_eq!(judge_first(&server).await, Whose::Service);
    }

    #[tokio::test]
    async fn a_connection_closed_or_reset_before_any_byte_has_no_owner() {
        for is_reset in [false, true] {
            let (client, server) = pair().await;
            if is_reset {
                client.set_zero_linger().unwrap();
            }
            drop(client);
            assert_eq!(judge_first(&server).await, Whose::Unclaimed);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_judged(said in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            let mut record = vec![22, 3, 1];
            record.extend((said.len() as u16).to_be_bytes());
            record.extend(&said);
            proptest::prop_assert_eq!(judge(&record), Some(Whose::Service));
            let _ = judge(&said);
        }
    }
}
