use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_types::{ByteCount, LinkIndex};

use crate::connection::Origin;
use crate::destination::HostName;
use crate::transport::DialError;

/// Places flows on links.
pub trait PlaceFlows: Send + Sync + 'static {
    /// What counts a flow.
    type Books: Books;

    /// The link that a flow takes, but none of `tried`, on which no answer came.
    ///
    /// # Errors
    /// Why there is none.
    fn place(
        &self,
        target: Target<'_>,
        tried: &[LinkIndex],
    ) -> Result<Placement<Self::Books>, DialError>;

    /// True if `address` is to be reached as the system's routes have it: it is this machine's own,
    /// on a link itself, or has a route that is more particular than the default one.
    fn goes_by_routes(&self, address: IpAddr) -> impl Future<Output = bool> + Send;

    /// True if a flow to `remote` may stay on the link, which was as this says when the flow was
    /// placed.
    fn stays(&self, link: &Link, remote: IpAddr) -> bool;

    /// True if others were not answered on the link lately, and were on another.
    fn is_suspect(&self, link: LinkIndex) -> bool;

    /// A flow was not answered on the link within `waited`, and was answered on another.
    fn on_miss(&self, link: LinkIndex, waited: Duration);
}

/// Where a flow is to go.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The far end.
    pub remote: SocketAddr,
    /// The name that the application asked for.
    pub domain: Option<&'a HostName>,
    /// The application.
    pub asker: &'a Origin,
    /// What [`PlaceFlows::goes_by_routes`] says of it.
    pub by_routes: bool,
}

/// Where a flow goes.
#[derive(Debug)]
pub struct Placement<B> {
    /// The link; `None` to go as the system's routes have it.
    pub link: Option<Arc<Link>>,
    /// What counts it, until it is dropped.
    pub books: B,
}

/// Counts one flow.
pub trait Books: Send + 'static {
    /// The far end has sent something for the first time.
    fn on_answer(&self);

    /// So much more was sent or received.
    fn on_moved(&self, up: ByteCount, down: ByteCount);
}

impl Books for () {
    fn on_answer(&self) {}

    fn on_moved(&self, _up: ByteCount, _down: ByteCount) {}
}
