//! The signals of Wi-Fi links, from the kernel (nl80211).
//!
//! The strength is read periodically, and at once when the driver reports that it has crossed a
//! threshold. Hawser sets no thresholds: an interface has one set of them, and wpa_supplicant uses
//! it to decide when to look for access points.

use std::future::pending;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStream, TryStreamExt as _};
use hawser_types::{LinkIndex, SignalStrength};
use rtnetlink::packet_core::NetlinkMessage;
use rtnetlink::sys::SocketAddr;
use tokio::time::{sleep, timeout};
use wl_nl80211::packet_generic::GenlMessage;
use wl_nl80211::{
    Nl80211Attr, Nl80211Error, Nl80211Event, Nl80211Handle, Nl80211InterfaceType, Nl80211Message,
    Nl80211MulticastGroup, Nl80211StationInfo,
};

use super::LinkError;
use super::netlink::PATIENCE;

/// Calls `tell` with the strengths of all Wi-Fi links that are connected to an access point,
/// repeatedly, for as long as this is polled. Links without an access point are left out; without
/// any Wi-Fi the list stays empty.
pub async fn follow_wifi_signals(mut tell: impl FnMut(Vec<(LinkIndex, SignalStrength)>)) {
    loop {
        match follow(&mut tell).await {
            Ok(()) => {}
            // The kernel lacks this netlink family before the first driver is loaded.
            Err(error) => tracing::debug!(%error, "cannot read Wi-Fi signals, retrying"),
        }
        tell(Vec::new());
        sleep(TRY_AGAIN).await;
    }
}

/// Ends when signals can no longer be read.
async fn follow(tell: &mut impl FnMut(Vec<(LinkIndex, SignalStrength)>)) -> Result<(), LinkError> {
    let (connection, handle, _no_events) = wl_nl80211::new_connection()?;
    // Without Wi-Fi, listing fails first.
    let mut reading = Box::pin(async {
        tell(read(&handle).await?);
        let mut crossings = Crossings::open();
        loop {
            tokio::select! {
                () = sleep(READ_EVERY) => {}
                () = crossings.next() => {}
            }
            tell(read(&handle).await?);
        }
    });
    tokio::select! {
        ended = &mut reading => ended,
        () = connection => Err(LinkError::Closed),
    }
}

async fn read(handle: &Nl80211Handle) -> Result<Vec<(LinkIndex, SignalStrength)>, LinkError> {
    let listing = async {
        let mut signals = Vec::new();
        let interfaces = handle.interface().get(Vec::new()).execute().await;
        for interface in all(interfaces).await? {
            let Some(index) = station(&interface) else {
                continue;
            };
            let points = handle.station().dump(index).execute().await;
            // The interface may have vanished.
            let points = all(points).await.unwrap_or_default();
            // A station has one access point.
            if let Some(strength) = points.iter().find_map(strength) {
                signals.push((LinkIndex::new(index), strength));
            }
        }
        Ok(signals)
    };
    match timeout(PATIENCE, listing).await {
        Ok(listed) => listed,
        Err(_) => Err(LinkError::TimedOut { after: PATIENCE }),
    }
}

async fn all(
    messages: impl TryStream<Ok = GenlMessage<Nl80211Message>, Error = Nl80211Error>,
) -> Result<Vec<Nl80211Message>, LinkError> {
    let messages = messages.map_ok(|message| message.payload).try_collect();
    messages.await.map_err(|error| LinkError::Dump {
        what: "Wi-Fi links",
        reason: error.to_string(),
    })
}

/// Returns the index of an interface that connects to access points.
fn station(interface: &Nl80211Message) -> Option<u32> {
    let is_station =
        |it: &Nl80211Attr| matches!(it, Nl80211Attr::IfType(Nl80211InterfaceType::Station));
    interface.attributes.iter().find(|it| is_station(it))?;
    interface.attributes.iter().find_map(|it| match it {
        Nl80211Attr::IfIndex(index) => Some(*index),
        _ => None,
    })
}

/// Returns the strength at which an access point is received: the average of the last packets where
/// the driver reports it, else that of the last packet.
fn strength(point: &Nl80211Message) -> Option<SignalStrength> {
    let facts = || {
        let facts = point.attributes.iter().filter_map(|it| match it {
            Nl80211Attr::StationInfo(facts) => Some(facts),
            _ => None,
        });
        facts.flatten()
    };
    let average = facts().find_map(|fact| match fact {
        Nl80211StationInfo::SignalAvg(dbm) => Some(*dbm),
        _ => None,
    });
    let last = facts().find_map(|fact| match fact {
        Nl80211StationInfo::Signal(dbm) => Some(*dbm),
        _ => None,
    });
    // Some drivers have no average yet, and report 0.
    let told = [average, last].into_iter().flatten().find(|dbm| *dbm != 0);
    SignalStrength::new(told?.into())
}

/// Events of drivers that a signal has crossed a threshold, which another program has set.
struct Crossings(Option<Events>);

type Events = futures_util::stream::BoxStream<'static, Nl80211Event>;

impl Crossings {
    /// Opens the stream; it has no events if the socket cannot be opened.
    fn open() -> Self {
        let opened = wl_nl80211::new_multicast_connection(&[Nl80211MulticastGroup::Mlme]);
        let (connection, _handle, messages) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::debug!(%error, "no Wi-Fi signal events, reading periodically");
                return Self(None);
            }
        };
        type Message<T> = (NetlinkMessage<T>, SocketAddr);
        let events =
            messages.filter_map(async |(message, _): Message<_>| Nl80211Event::parse(message));
        // Polls the socket for as long as the events are awaited.
        let events = futures_util::stream::select(
            futures_util::stream::once(connection).filter_map(async |()| None),
            events,
        );
        Self(Some(events.boxed()))
    }

    async fn next(&mut self) {
        let Some(events) = &mut self.0 else {
            return pending().await;
        };
        loop {
            match events.next().await {
                Some(Nl80211Event::CqmRssi(_)) => return,
                Some(_) => {}
                None => {
                    self.0 = None;
                    return pending().await;
                }
            }
        }
    }
}

/// Walking costs 10 dB in a few seconds, and a read costs two short messages.
const READ_EVERY: Duration = Duration::from_millis(500);
/// A card may be plugged in at any time.
const TRY_AGAIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use hawser_skip::skip;
    use rtnetlink::packet_core::{Emitable as _, ParseableParametrized as _};
    use wl_nl80211::Nl80211Command;
    use wl_nl80211::packet_generic::GenlHeader;

    use super::*;

    /// The message as the kernel would send it, parsed.
    fn message(attributes: Vec<Nl80211Attr>) -> Nl80211Message {
        let message = Nl80211Message {
            cmd: Nl80211Command::NewStation,
            attributes,
        };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        let header = GenlHeader {
            cmd: 19,
            version: 0,
        };
        Nl80211Message::parse_with_param(&bytes[..], header).unwrap()
    }

    #[test]
    fn strengths_are_the_drivers_averages_or_else_the_last_ones() {
        use Nl80211StationInfo::{Signal, SignalAvg};
        let read = |facts| strength(&message(vec![Nl80211Attr::StationInfo(facts)]));
        let dbm = SignalStrength::new;
        assert_eq!(read(vec![Signal(-58), SignalAvg(-61)]), dbm(-61));
        assert_eq!(read(vec![Signal(-58), SignalAvg(0)]), dbm(-58));
        assert_eq!(read(vec![Signal(-58)]), dbm(-58));
        assert_eq!(read(vec![Signal(12)]), None);
        assert_eq!(read(Vec::new()), None);
    }

    #[test]
    fn only_stations_have_a_signal_of_their_own() {
        let of = |kind| {
            station(&message(vec![
                Nl80211Attr::IfIndex(7),
                Nl80211Attr::IfType(kind),
            ]))
        };
        assert_eq!(of(Nl80211InterfaceType::Station), Some(7));
        assert_eq!(of(Nl80211InterfaceType::Ap), None);
        assert_eq!(station(&message(vec![Nl80211Attr::IfIndex(7)])), None);
    }

    #[tokio::test]
    async fn a_machine_without_wifi_is_told_of_and_one_with_it_is_read() {
        let (connection, handle, _no_events) = wl_nl80211::new_connection().unwrap();
        tokio::spawn(connection);
        let signals = read(&handle).await;
        if !std::path::Path::new("/sys/class/ieee80211").exists() {
            skip(
                "hawser-net links::wifi: reading a radio",
                "this kernel has no Wi-Fi, nor mac80211_hwsim",
            );
            let error = signals.unwrap_err().to_string();
            assert!(error.starts_with("cannot list Wi-Fi links: "), "{error}");
            return;
        }
        let interfaces = all(handle.interface().get(Vec::new()).execute().await).await;
        assert!(signals.unwrap().len() <= interfaces.unwrap().len());
    }
}
