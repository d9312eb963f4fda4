//! Reads a socket and hands its datagrams to the endpoints that they are for.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hawser_sctp::Local;
use hawser_tunnel::PacketMemory;
use quinn_udp::BATCH_SIZE;

use super::keyed_endpoints::KeyedEndpoints;
use super::socket::{LinkSocket, MAX_BATCH};

/// Reads a socket for ever.
pub(super) async fn read(endpoints: Arc<KeyedEndpoints>, socket: Arc<LinkSocket>) {
    let local = socket.local();
    let item = |remote, _, datagram| (remote, datagram);
    take_all(&socket, item, |batch| {
        endpoints.handle_datagrams(local, batch);
    })
    .await;
}

/// Reads a socket bound to all addresses, for ever. For each datagram that is for an endpoint,
/// `detour` gets the datagram's place and returns whether that place is in use.
pub(super) async fn read_strays(
    endpoints: Arc<KeyedEndpoints>,
    socket: Arc<LinkSocket>,
    detour: impl Fn(Local) -> bool,
) {
    let link = socket.local().link;
    let item = |remote, to, datagram| (remote, to, datagram);
    take_all(&socket, item, |batch: &mut Vec<_>| {
        for (remote, to, datagram) in batch.drain(..) {
            let local = to.map(|address: IpAddr| Local {
                link,
                address: address.to_canonical(),
            });
            let Some(local) = local else {
                continue;
            };
            let is_for_one = endpoints.is_for_one(&datagram);
            if (is_for_one && detour(local)) || (!is_for_one && endpoints.has_predecessor()) {
                endpoints.handle_datagrams(local, &mut vec![(remote, datagram)]);
            }
        }
    })
    .await;
}

/// Reads a socket for ever, and makes an item of each datagram; `handle` empties each batch.
async fn take_all<T>(
    socket: &LinkSocket,
    item: impl Fn(SocketAddr, Option<IpAddr>, BytesMut) -> T,
    mut handle: impl FnMut(&mut Vec<T>),
) {
    // One allocation, zeroed by the system: pages that a quiet socket does not use stay unmapped.
    let mut buffers = vec![0; MAX_BATCH * BATCH_SIZE];
    let (mut memory, mut datagrams) = (PacketMemory::default(), Vec::new());
    let mut trouble = Trouble::default();
    let mut batches = 0;
    loop {
        let received = socket
            .receive(&mut buffers, &mut memory, |remote, to, datagram| {
                datagrams.push(item(remote, to, datagram));
            })
            .await;
        if received.is_ok() {
            handle(&mut datagrams);
            batches += 1;
        } else {
            batches = 0;
        }
        if batches == TURN {
            // During a flood this task never waits, and other tasks on this thread would never have
            // their turn.
            tokio::task::yield_now().await;
            batches = 0;
        }
        if let Some(pause) = trouble.weigh(socket.local(), received) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Consecutive errors of a socket.
#[derive(Debug, Default)]
struct Trouble {
    /// Errors since the last successful read.
    in_a_row: u32,
}

impl Trouble {
    /// Returns the pause after an error, which grows with each: a lasting error would keep the task
    /// busy for ever. Datagrams wait in the socket meanwhile. Associations notice losses and use
    /// other paths, if there are any. The loss of a link is reported elsewhere.
    fn weigh(&mut self, local: Local, received: io::Result<()>) -> Option<Duration> {
        let error = match received {
            Ok(()) => {
                self.in_a_row = 0;
                return None;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => error,
        };
        self.in_a_row = self.in_a_row.saturating_add(1);
        match self.in_a_row {
            // For example an interface went down, which the socket reports once.
            ..PERSISTENT => tracing::debug!(%error, ?local, "cannot read UDP socket"),
            PERSISTENT => tracing::warn!(%error, ?local, "cannot read UDP socket any more"),
            _ => {}
        }
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.in_a_row.min(PERSISTENT) - 1);
        Some(pause.min(LONGEST_PAUSE))
    }
}

/// Batches of datagrams that are handled before other tasks on the thread have their turn: a few
/// milliseconds.
const TURN: u32 = 64;
/// Consecutive errors that count as persistent.
const PERSISTENT: u32 = 11;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::atomic::{AtomicU32, Ordering};

    use hawser_types::LinkIndex;

    use super::*;
    use crate::association::socket::Sharing;

    fn local() -> Local {
        Local {
            link: LinkIndex::new(0),
            address: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// The pauses after these errors, which follow each other.
    fn pauses(errors: impl IntoIterator<Item = io::Result<()>>) -> Vec<Option<Duration>> {
        let local = local();
        let mut trouble = Trouble::default();
        let errors = errors.into_iter();
        errors.map(|it| trouble.weigh(local, it)).collect()
    }

    fn error(kind: io::ErrorKind) -> io::Result<()> {
        Err(kind.into())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_flood_leaves_other_tasks_of_the_thread_their_turn() {
        let socket = Arc::new(LinkSocket::bind(local(), 0, Sharing::Alone).unwrap());
        let port = (Ipv4Addr::LOCALHOST, socket.port().unwrap());
        let flooder = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // If the kernel drops some datagrams, others have come meanwhile.
        (0..BATCH_SIZE).for_each(|_| drop(flooder.send_to(&[0; 9], port)));
        let batches = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&batches);
        tokio::spawn(async move {
            let handle = |batch: &mut Vec<_>| {
                let so_far = counted.fetch_add(1, Ordering::Relaxed);
                // As many again, so that the socket is never empty; but not for ever.
                let more = batch.drain(..).take_while(|_| so_far < 20 * TURN);
                more.for_each(|_| drop(flooder.send_to(&[0; 9], port)));
            };
            take_all(&socket, |_, _, datagram| datagram, handle).await;
        });
        let (mut seen, mut longest) = (0, 0);
        let watch = async {
            while seen < 10 * TURN {
                tokio::task::yield_now().await;
                let now = batches.load(Ordering::Relaxed);
                longest = longest.max(now - seen);
                seen = now;
            }
        };
        let watched = tokio::time::timeout(Duration::from_secs(60), watch).await;
        watched.expect("the socket is flooded");
        assert!(
            longest <= TURN,
            "{longest} batches without a turn for others"
        );
    }

    #[test]
    fn a_socket_that_returns_only_errors_is_read_once_a_second() {
        let pauses = pauses((0..100).map(|_| error(io::ErrorKind::NetworkDown)));
        assert!(pauses[..3].iter().flatten().sum::<Duration>() < Duration::from_millis(10));
        assert!(pauses.is_sorted());
        assert_eq!(pauses[20..], [Some(Duration::from_secs(1)); 80]);
    }

    #[test]
    fn errors_between_datagrams_cause_only_short_pauses() {
        let nothing = io::ErrorKind::WouldBlock;
        let row = || [Ok(()), error(io::ErrorKind::NetworkDown), error(nothing)];
        let short = Some(FIRST_PAUSE);
        assert_eq!(
            pauses((0..50).flat_map(|_| row())),
            [None, short, None].repeat(50)
        );
    }
}
