//! Which congestion control a channel's connection uses.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::bind;

/// How channels share their links with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    /// Always this one; none leaves the system's default.
    Fixed(Option<String>),
    /// As the path asks for: a window alone where round trips are far below a millisecond, since
    /// bbr's timers would cost more than the network; bbr elsewhere.
    ByPath {
        /// What a connection begins with. Once bbr was on, pacing stays on.
        short: &'static str,
    },
}

impl Congestion {
    /// The user's choice, or what suits striping best among those this process may use.
    pub(crate) fn choose(named: Option<String>) -> Self {
        if named.is_some() {
            return Self::Fixed(named);
        }
        let best = bind::best_congestion();
        let short = SHORT.iter().find(|name| bind::is_permitted(name));
        match (&best, short) {
            (Some(_), Some(short)) => Self::ByPath { short },
            _ => Self::Fixed(best),
        }
    }

    /// What a socket begins with.
    pub(crate) fn initial(&self) -> Option<&str> {
        match self {
            Self::Fixed(name) => name.as_deref(),
            Self::ByPath { short } => Some(short),
        }
    }

    /// The name for people.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Fixed(name) => name.as_deref(),
            Self::ByPath { .. } => Some(bind::BBR),
        }
    }

    /// Puts a socket that listens in the state in which connections are to begin.
    pub(crate) fn prepare(&self, listener: &impl AsFd) {
        if let Self::ByPath { short } = self
            && let Err(error) = bind::set_congestion(listener, short)
        {
            tracing::debug!(%error, "connections begin with the system's congestion control");
        }
    }
}

/// Follows one channel's round trips until they are long enough for bbr.
#[derive(Debug)]
pub(crate) struct Choice {
    open: bool,
}

impl Choice {
    pub(crate) fn new(congestion: &Congestion) -> Self {
        let open = matches!(congestion, Congestion::ByPath { .. });
        Self { open }
    }

    /// Takes in the channel's smoothed round-trip time.
    pub(crate) fn on_rtt(&mut self, socket: &impl AsFd, rtt: Duration) {
        if !self.open || rtt < FAR {
            return;
        }
        self.open = false;
        if let Err(error) = bind::set_congestion(socket, bind::BBR) {
            tracing::debug!(%error, "the congestion control stays");
        }
    }
}

/// Round trips from here on are a network's, not a wire's between two machines.
const FAR: Duration = Duration::from_millis(1);
/// Window-based ones, the better first.
const SHORT: [&str; 2] = ["cubic", "reno"];

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use socket2::SockRef;

    use super::*;

    fn name(socket: &TcpStream) -> String {
        let bytes = SockRef::from(socket).tcp_congestion().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        text.trim_end_matches('\0').to_owned()
    }

    #[test]
    fn connections_begin_with_a_window_and_turn_to_bbr_when_the_path_is_long() {
        let congestion = Congestion::choose(None);
        let Congestion::ByPath { short } = congestion else {
            println!("SKIPPED: bbr or cubic may not be used here");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        congestion.prepare(&listener);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        assert_eq!(name(&socket), short);
        let mut choice = Choice::new(&congestion);
        choice.on_rtt(&socket, FAR / 2);
        assert_eq!(name(&socket), short);
        choice.on_rtt(&socket, FAR);
        assert_eq!(name(&socket), bind::BBR);
    }

    #[test]
    fn what_the_user_names_stays() {
        let congestion = Congestion::choose(Some("reno".to_owned()));
        assert_eq!(congestion.initial(), Some("reno"));
        assert!(!Choice::new(&congestion).open);
    }
}
