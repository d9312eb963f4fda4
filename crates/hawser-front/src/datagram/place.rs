use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Link;
use hawser_types::{ByteCount, LinkIndex};

use crate::connection::Origin;
use crate::destination::HostName;
use crate::transport::DialError;

/// Places flows on links.
pub trait PlaceFlows: Send + Sync + 'static {
    /// The accounts of one flow.
    type Books: Books;

    /// Returns the link for a flow: none of `tried`, on which the flow got no answer.
    ///
    /// # Errors
    /// The reason why there is no such link.
    fn place(
        &self,
        target: Target<'_>,
        tried: &[LinkIndex],
    ) -> Result<Placement<Self::Books>, DialError>;

    /// True if the system's routes decide how `address` is reached: it is this machine's own, on a
    /// link itself, or has a route that is more specific than the default one.
    fn goes_by_routes(&self, address: IpAddr) -> impl Future<Output = bool> + Send;

    /// True if a flow to `remote` may stay on its link; `link` is the link's state when the flow
    /// was placed.
    fn stays(&self, link: &Link, remote: IpAddr) -> bool;

    /// True if other flows recently got no answer on the link, but one on another link.
    fn is_suspect(&self, link: LinkIndex) -> bool;

    /// Notes that a flow got no answer on the link within `waited`, but one on another link.
    fn on_miss(&self, link: LinkIndex, waited: Duration);
}

/// The destination of a flow, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The far end.
    pub remote: SocketAddr,
    /// The name that the application asked for.
    pub domain: Option<&'a HostName>,
    /// The application.
    pub asker: &'a Origin,
    /// The result of [`PlaceFlows::goes_by_routes`] for the far end.
    pub by_routes: bool,
}

/// The place of a flow.
#[derive(Debug)]
pub struct Placement<B> {
    /// The link; `None`: the system's routes decide.
    pub link: Option<Arc<Link>>,
    /// The flow's accounts. The flow counts until they are dropped.
    pub books: B,
}

/// The accounts of one flow.
pub trait Books: Send + 'static {
    /// Notes the first datagram from the far end.
    fn on_answer(&self);

    /// Adds bytes that were sent (`up`) or received (`down`).
    fn on_moved(&self, up: ByteCount, down: ByteCount);
}

impl Books for () {
    fn on_answer(&self) {}

    fn on_moved(&self, _up: ByteCount, _down: ByteCount) {}
}
