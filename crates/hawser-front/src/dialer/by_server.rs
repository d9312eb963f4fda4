//! Connections to servers that were discovered, or that their handshakes may reveal.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use super::{ConnectionDialer, Opened, StreamOf};
use crate::connection::{EarlyData, Origin, Via, resolved};
use crate::destination::Destination;
use crate::either::{EitherStream, Loss, dial_either};
use crate::peer::{BondAnswer, DialDiscovered, Discovered, Remote, Sessions};
use crate::resolve::Resolve;
use crate::transport::DialError;

impl<V: Via, R: Resolve, P: Sessions> ConnectionDialer<V, R, P> {
    /// Returns those of `addresses` whose handshakes ask for a bond, if `may_ask`.
    pub(super) fn addresses_asked(
        &self,
        may_ask: bool,
        addresses: &[IpAddr],
        (destination, origin): (&Destination, &Origin),
    ) -> Vec<IpAddr> {
        let Some(servers) = self.discovered().filter(|_| may_ask) else {
            return Vec::new();
        };
        let asks = |address: &&IpAddr| {
            let at = SocketAddr::new(**address, destination.port);
            servers.asks_bond(at, destination, origin)
        };
        addresses.iter().filter(asks).copied().collect()
    }
}

impl<V, R, P> ConnectionDialer<V, R, P>
where
    V: Via<Stream: Remote>,
    R: Resolve,
    P: Sessions,
{
    /// Dials over a session with a discovered server, and soon another way as well unless the
    /// session is the only one; the first answer wins.
    pub(super) async fn dial_by_server(
        &self,
        servers: &dyn DialDiscovered<StreamOf<P>>,
        way: Discovered<'_, StreamOf<P>>,
        (destination, origin): (&Destination, &Origin),
    ) -> Result<Opened<V, P>, DialError> {
        let at = way.at;
        let dialed = if way.is_only_way {
            origin.early.iter().for_each(EarlyData::release);
            let asking = self.dial_asking(servers, at, (destination, origin));
            let dialed = dial_either_session(way.dialing, way.head_start, asking).await;
            EitherStream::Bonded(dialed?)
        } else {
            let on_loss = |loss| match loss {
                Loss::Overtaken(_) => servers.note_overtaken(at),
                Loss::Failed(error) => tracing::debug!(%at, %error,
                    "connection over the session with the server failed"),
            };
            let direct = self.dial_by_decision((destination, origin), None, false);
            dial_either(way.dialing, way.head_start, direct, on_loss).await?
        };
        Ok(self.opened((destination, origin), at.ip(), dialed))
    }

    /// Dials where no session with the destination runs. The handshake may ask for a session, and
    /// may show that one is possible.
    pub(super) async fn dial_unmet(
        &self,
        to: (&Destination, &Origin),
    ) -> Result<Opened<V, P>, DialError> {
        let ((destination, origin), servers) = (to, self.discovered());
        let early = origin.early.as_ref();
        let mut opened = self.dial_by_decision(to, early, true).await?;
        if let (Some(servers), EitherStream::Direct(stream)) = (servers, &opened) {
            match servers.bond_answer(stream.socket(), destination, origin) {
                BondAnswer::None => {}
                BondAnswer::Taken(way) => {
                    // The socket continues as the session's first channel.
                    drop(opened);
                    return self.dial_by_server(servers, way, to).await;
                }
                BondAnswer::Refused => {
                    drop(opened);
                    opened = self.dial_by_decision(to, early, false).await?;
                }
            }
        }
        if let EitherStream::Direct(stream) = &opened
            && let Some(remote) = stream.remote()
        {
            // The search for sessions runs in the background: the connection is established.
            if let Some(peers) = self.peers() {
                peers.look_for(&destination.host, remote);
            }
            if let Some(servers) = servers {
                let at = (remote, destination.port).into();
                servers.look_for(at, destination, origin);
                if let Some(way) = servers.required(at, destination, origin) {
                    drop(opened);
                    return self.dial_by_server(servers, way, to).await;
                }
            }
        }
        Ok(opened)
    }

    /// Dials over a link to the server at `at`, and opens a stream in the session that begins on
    /// that connection. Fails if no session begins there.
    async fn dial_asking(
        &self,
        servers: &dyn DialDiscovered<StreamOf<P>>,
        at: SocketAddr,
        (destination, origin): (&Destination, &Origin),
    ) -> Result<StreamOf<P>, DialError> {
        if !servers.asks_bond(at, destination, origin) {
            return Err(DialError::GatewayUnavailable);
        }
        let addresses = self.machine.admitted(origin, vec![at.ip()])?;
        let request = resolved(origin.towards(destination), &addresses);
        let asks_bond = addresses.clone();
        let opened = self.links.dial(request, addresses, asks_bond).await?;
        match servers.bond_answer(opened.socket(), destination, origin) {
            BondAnswer::Taken(way) => {
                // The socket continues as the session's first channel.
                drop(opened);
                way.dialing.await
            }
            BondAnswer::None | BondAnswer::Refused => Err(DialError::GatewayUnavailable),
        }
    }
}

/// Dials by `by_session`, and soon also by `asking`, whose connection begins a session; the first
/// answer wins. Returns the error of `by_session` if both fail.
async fn dial_either_session<S>(
    by_session: impl Future<Output = Result<S, DialError>>,
    head_start: Duration,
    asking: impl Future<Output = Result<S, DialError>>,
) -> Result<S, DialError> {
    let failed = OnceLock::new();
    let on_loss = |loss| {
        if let Loss::Failed(error) = loss {
            let _ = failed.set(error);
        }
    };
    match dial_either(by_session, head_start, asking, on_loss).await {
        Ok(EitherStream::Direct(stream) | EitherStream::Bonded(stream)) => Ok(stream),
        Err(error) => Err(failed.get().copied().unwrap_or(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn where_only_a_session_will_do_one_on_a_connection_does_and_the_first_error_counts() {
        let (soon, refused) = (Duration::from_millis(250), DialError::RefusedByPolicy);
        let none = || ready(Err::<u8, _>(DialError::GatewayUnavailable));
        let dialed = dial_either_session(pending(), soon, ready(Ok(2))).await;
        assert_eq!(dialed, Ok(2));
        let dialed = dial_either_session(ready(Err(refused)), soon, ready(Ok(2))).await;
        assert_eq!(dialed, Ok(2));
        assert_eq!(dial_either_session(ready(Ok(1)), soon, none()).await, Ok(1));
        let late = async {
            tokio::time::sleep(soon * 2).await;
            Ok(1)
        };
        assert_eq!(dial_either_session(late, soon, none()).await, Ok(1));
        let failed = dial_either_session(ready(Err(refused)), soon, none()).await;
        assert_eq!(failed, Err(refused));
    }
}
