//! Which congestion control a channel's connection uses.

use std::os::fd::AsFd;

use hawser_sched::Control;
use tracing::Span;

use hawser_link::bind;

/// How channels get their congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    /// Always this control; `None` leaves the system's default.
    Fixed(Option<String>),
    /// The session chooses for each channel: see [`hawser_sched::ControlChoice`].
    ByPath {
        /// The window-based control. Connections begin with it, since pacing stays on once bbr was
        /// used.
        window: &'static str,
    },
}

impl Congestion {
    /// Returns the user's choice, or the best control for striping that this process may use.
    pub(crate) fn choose(named: Option<String>) -> Self {
        if named.is_some() {
            return Self::Fixed(named);
        }
        let best = bind::best_congestion();
        let window = WINDOWS.iter().find(|name| bind::is_permitted(name));
        match (&best, window) {
            (Some(_), Some(window)) => Self::ByPath { window },
            (Some(_), None) => Self::Fixed(best),
            (None, _) => {
                tracing::warn!(
                    "cannot use the congestion control bbr, so links with packet loss are much \
                     slower; `hawser doctor` tells what to change"
                );
                Self::Fixed(None)
            }
        }
    }

    /// The control that a socket begins with.
    pub(crate) fn initial(&self) -> Option<&str> {
        match self {
            Self::Fixed(name) => name.as_deref(),
            Self::ByPath { window } => Some(window),
        }
    }

    /// The name that users see.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Fixed(name) => name.as_deref(),
            Self::ByPath { .. } => Some(bind::BBR),
        }
    }

    /// Gives a listening socket the control that its connections are to begin with.
    pub(crate) fn prepare(&self, listener: &impl AsFd) {
        if let Self::ByPath { window } = self
            && let Err(error) = bind::set_congestion(listener, window)
        {
            tracing::debug!(%error, "cannot set congestion control of listener");
        }
    }
}

/// The congestion control of one channel, as chosen last.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The window-based control; `None`: the channel's control is fixed.
    window: Option<&'static str>,
    set: Control,
}

impl Choice {
    pub(crate) fn new(congestion: &Congestion) -> Self {
        let window = match congestion {
            Congestion::ByPath { window } => Some(*window),
            Congestion::Fixed(_) => None,
        };
        Self {
            window,
            set: Control::Window,
        }
    }

    /// Gives the channel's connection the control that the session has chosen. `span`: the span of
    /// the session.
    pub(crate) fn set(&mut self, socket: &impl AsFd, control: Control, span: &Span) {
        let Some(window) = self.window.filter(|_| control != self.set) else {
            return;
        };
        self.set = control;
        let name = match control {
            Control::Window => window,
            Control::Rate => bind::BBR,
        };
        let _span = span.enter();
        match bind::set_congestion(socket, name) {
            Ok(()) => tracing::debug!(name, "changed congestion control"),
            Err(error) => tracing::debug!(%error, "cannot change congestion control"),
        }
    }
}

/// Window-based controls, the better one first.
const WINDOWS: [&str; 2] = ["cubic", "reno"];

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
    fn a_connection_begins_with_a_window_and_gets_what_is_chosen() {
        let congestion = Congestion::choose(None);
        let Congestion::ByPath { window } = congestion else {
            let test = "hawser-net::a_connection_begins_with_a_window_and_gets_what_is_chosen";
            return hawser_skip::skip(test, "bbr or cubic may not be used here");
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        congestion.prepare(&listener);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        assert_eq!(name(&socket), window);
        let mut choice = Choice::new(&congestion);
        choice.set(&socket, Control::Window, &Span::none());
        assert_eq!(name(&socket), window);
        choice.set(&socket, Control::Rate, &Span::none());
        assert_eq!(name(&socket), bind::BBR);
        choice.set(&socket, Control::Window, &Span::none());
        assert_eq!(name(&socket), window);
    }

    #[test]
    fn a_control_named_by_the_user_stays() {
        let congestion = Congestion::choose(Some("reno".to_owned()));
        assert_eq!(congestion.initial(), Some("reno"));
        assert_eq!(Choice::new(&congestion).window, None);
    }
}
