//! The terminal: taken over, and given back whatever happens.

use std::io::{self, Stdout, stdout};
use std::sync::Once;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, kill_current_process_group};
use tokio::sync::mpsc;

use super::screen;
use super::state::State;

/// A screen of our own on the terminal, as long as this lives.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn open() -> io::Result<Self> {
        give_back_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        let screen = Self { terminal };
        take()?;
        Ok(screen)
    }

    /// The terminal's columns and lines.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, state: &State) -> io::Result<()> {
        self.terminal.draw(|frame| screen::draw(state, frame))?;
        Ok(())
    }

    /// Has the next picture drawn wholly.
    pub(super) fn repaint(&mut self) -> io::Result<()> {
        // `clear` would ask the terminal for its cursor, and the answer would be taken for keys.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Gives the terminal back and stops, with all of the job, as Ctrl-Z does. The kernel ignores
    /// that where no shell would be there to go on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back()?;
        kill_current_process_group(Signal::TSTP)?;
        Ok(())
    }

    /// Takes the terminal over again.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        // The shell has set the terminal as it likes it, which is to be had again later.
        disable_raw_mode()?;
        take()?;
        self.repaint()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = give_back();
    }
}

/// Returns the terminal's events from now on: keys and new sizes.
pub(super) fn listen() -> mpsc::Receiver<io::Result<Event>> {
    let (sender, receiver) = mpsc::channel(KEYS);
    // It ends with the process: nothing else ends waiting for a key.
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            let is_last = event.is_err();
            if sender.blocking_send(event).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide)
}

fn give_back() -> io::Result<()> {
    let restored = disable_raw_mode();
    execute!(stdout(), LeaveAlternateScreen, Show)?;
    restored
}

/// Gives the terminal back before a panic prints its message, so that the message can be read.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = give_back();
            before(info);
        }));
    });
}

/// Keys that wait until the picture is drawn.
const KEYS: usize = 64;
