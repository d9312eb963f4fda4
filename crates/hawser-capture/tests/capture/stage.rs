use std::net::TcpListener;

use hawser_capture::{Capture, RunGroup, Settings};
use hawser_sched::connection::ConnectionPolicy;

use crate::ground::*;

/// Common setup of most tests.
pub(crate) struct Stage {
    pub(crate) ground: Ground,
    pub(crate) capture: Capture,
    pub(crate) group: RunGroup,
    pub(crate) listener: TcpListener,
    pub(crate) puppet: Puppet,
}

impl Stage {
    /// Sets up links used in turns; `None`, with a report, where the machine forbids the test.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::with(test, &turns())
    }

    pub(crate) fn with(test: &str, settings: &Settings) -> Option<Self> {
        let test = format!("capture::{test}");
        let ground = Ground::new(&test)?;
        let (mut capture, group) = capture(&test, settings)?;
        capture.set_links(&entries()).unwrap();
        let listener = ground.listener();
        let puppet = Puppet::new(Some(&group));
        Some(Self {
            ground,
            capture,
            group,
            listener,
            puppet,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub(crate) fn to4(&self) -> String {
        format!("{SERVER4}:{}", self.port())
    }

    pub(crate) fn to6(&self) -> String {
        format!("[{SERVER6}]:{}", self.port())
    }

    /// Returns the links that consecutive connections take.
    pub(crate) fn links<const N: usize>(&mut self, kind: &str, to: &str) -> [u8; N] {
        [(); N].map(|()| link_of(self.puppet.connect(kind, to)))
    }
}

pub(crate) fn turns() -> Settings {
    Settings {
        policy: ConnectionPolicy::RoundRobin,
        ..Settings::default()
    }
}
