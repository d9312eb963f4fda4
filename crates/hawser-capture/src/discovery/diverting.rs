//! Diversion of SYNs to Hawser's own listeners.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use aya::Ebpf;
use aya::maps::{HashMap, MapData, SockMap};
use aya::programs::tc::{self, NlOptions, SchedClassifierLinkId, TcAttachOptions};
use aya::programs::{SchedClassifier, TcAttachType};
use socket2::{Domain, Protocol, Socket, Type};

use crate::attach::has_tcx;
use crate::maps::{program, replace, take};
use crate::tables::{self, OwnRow};
use crate::{CaptureError, sys};

/// The tables and attachments of the diversion.
pub(super) struct Diverting {
    own: HashMap<MapData, OwnRow, u32>,
    listeners: SockMap<MapData>,
    listening: HashMap<MapData, u64, u32>,
    /// Attachments by interface.
    attached: BTreeMap<String, SchedClassifierLinkId>,
}

impl Diverting {
    pub(super) fn of(programs: &mut Ebpf) -> Result<Self, CaptureError> {
        Ok(Self {
            own: HashMap::try_from(take(programs, "OWN")?)?,
            listeners: SockMap::try_from(take(programs, "LISTENERS")?)?,
            listening: HashMap::try_from(take(programs, "LISTENING")?)?,
            attached: BTreeMap::new(),
        })
    }

    pub(super) fn set_own_addresses(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), CaptureError> {
        let rows = addresses.into_iter().map(|address| {
            let address = tables::mapped(address);
            (OwnRow { address }, 1)
        });
        replace(&mut self.own, rows.take(MAX_OWN))
    }

    pub(super) fn listen(&mut self, at: &[IpAddr]) -> Result<Vec<TcpListener>, CaptureError> {
        let (mut listeners, mut failed) = (Vec::new(), None);
        for address in at {
            match self.listen_at(*address) {
                Ok(listener) => listeners.push(listener),
                Err(error) => failed = Some(error),
            }
        }
        // A host may have only one family.
        match failed {
            Some(error) if listeners.is_empty() => Err(error),
            _ => Ok(listeners),
        }
    }

    fn listen_at(&mut self, address: IpAddr) -> Result<TcpListener, CaptureError> {
        let failed = |error| CaptureError::System {
            what: "a listener for connections that want a bond",
            error,
        };
        let socket = bind(address).map_err(failed)?;
        let cookie = sys::socket_cookie(&socket).map_err(failed)?;
        // When the socket begins to listen, the program has it answer options.
        self.listening.insert(cookie, 1, 0)?;
        socket.listen(BACKLOG).map_err(failed)?;
        self.listeners.set(address.is_ipv6().into(), &socket, 0)?;
        Ok(socket.into())
    }

    pub(super) fn divert_on(
        &mut self,
        programs: &mut Ebpf,
        interface: &str,
    ) -> Result<(), CaptureError> {
        if !has_tcx() {
            return self.filter_on(programs, interface);
        }
        self.stop_on(programs, interface)?;
        let id = loaded(programs)?.attach(interface, TcAttachType::Ingress)?;
        self.attached.insert(interface.to_owned(), id);
        Ok(())
    }

    pub(super) fn stop_on(
        &mut self,
        programs: &mut Ebpf,
        interface: &str,
    ) -> Result<(), CaptureError> {
        match self.attached.remove(interface) {
            Some(id) => Ok(loaded(programs)?.detach(id)?),
            None => Ok(()),
        }
    }

    pub(super) fn filter_on(
        &mut self,
        programs: &mut Ebpf,
        interface: &str,
    ) -> Result<(), CaptureError> {
        self.stop_on(programs, interface)?;
        // The discipline may exist already, also for other programs, and stays.
        let _ = tc::qdisc_add_clsact(interface);
        match tc::qdisc_detach_program(interface, TcAttachType::Ingress, DIVERT) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(%error, interface, "can't remove leftovers of an earlier run");
            }
            _ => {}
        }
        let options = TcAttachOptions::Netlink(NlOptions::default());
        let divert = loaded(programs)?;
        let id = divert.attach_with_options(interface, TcAttachType::Ingress, options)?;
        self.attached.insert(interface.to_owned(), id);
        Ok(())
    }
}

impl fmt::Debug for Diverting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diverting").finish_non_exhaustive()
    }
}

fn loaded(programs: &mut Ebpf) -> Result<&mut SchedClassifier, CaptureError> {
    let divert: &mut SchedClassifier = program(programs, DIVERT)?.try_into()?;
    if divert.fd().is_err() {
        divert.load()?;
    }
    Ok(divert)
}

/// Binds a listener to a loopback address, which other hosts can't reach. Connections that are
/// given to the listener need not be for that address.
fn bind(address: IpAddr) -> io::Result<Socket> {
    let at = SocketAddr::new(address, 0);
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // If the machine translates addresses at all, the kernel takes a packet away from a socket with
    // other addresses than the packet's, but not from a transparent socket.
    match address {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    socket.bind(&at.into())?;
    Ok(socket)
}

/// Name of the program, which identifies the leftovers of an earlier run on an interface.
const DIVERT: &str = "hawser_divert";
/// Half of the table's room, since new addresses are added before old ones are removed.
const MAX_OWN: usize = 2048;
/// Connections that wait to be accepted; the kernel may allow fewer.
const BACKLOG: i32 = 1024;
