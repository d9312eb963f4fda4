use std::net::IpAddr;

use hawser_link::names::{LookupError, Names};

use super::SharedDirector;
use crate::destination::HostName;
use crate::resolve::Resolve;
use crate::transport::DialError;

/// The system's resolver. If that is silent, the name servers of every link that a director allows
/// are asked, each over its link.
#[derive(Clone, Debug)]
pub struct LinkResolver {
    names: Names,
    director: SharedDirector,
}

impl LinkResolver {
    /// Creates a resolver over the links of `director`.
    pub fn new(director: SharedDirector) -> Self {
        Self {
            names: Names::new(),
            director,
        }
    }
}

impl Resolve for LinkResolver {
    async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, DialError> {
        let links = self.director.with(|director, _| director.links_for_names());
        let found = self.names.lookup(name, &links).await;
        found.map_err(|error| match error {
            LookupError::NotFound => DialError::NameNotFound,
            _ => DialError::ResolverUnavailable,
        })
    }
}
