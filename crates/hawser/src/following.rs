use std::sync::Arc;

use hawser_link::links::{Link, LinkError, LinkMonitor};
use tokio::sync::{OnceCell, watch};

/// The machine's links, monitored from the first query on, for as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Following {
    monitor: OnceCell<Monitor>,
}

#[derive(Debug)]
struct Monitor {
    _task: LinkMonitor,
    links: watch::Receiver<Arc<Vec<Link>>>,
}

impl Following {
    /// Returns a watch of the links.
    pub(crate) async fn links(&self) -> Result<watch::Receiver<Arc<Vec<Link>>>, LinkError> {
        let monitor = self.monitor.get_or_try_init(async || {
            let (task, links) = LinkMonitor::start().await?;
            Ok::<_, LinkError>(Monitor { _task: task, links })
        });
        Ok(monitor.await?.links.clone())
    }
}
