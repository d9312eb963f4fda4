//! The terminal: taken over, and always restored.

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

/// A full-screen mode on the terminal, until it is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes over the terminal.
    pub(super) fn open() -> io::Result<Self> {
        give_back_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        let screen = Self { terminal };
        take()?;
        Ok(screen)
    }

    /// Returns the terminal's columns and lines.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws the changes.
    pub(super) fn draw(&mut self, state: &State) -> io::Result<()> {
        self.terminal.draw(|frame| screen::draw(state, frame))?;
        Ok(())
    }

    /// Makes the next picture a complete one.
    pub(super) fn repaint(&mut self) -> io::Result<()> {
        // `clear` would ask the terminal for its cursor, and the answer would be mistaken for keys.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Restores the terminal and stops the whole job, as Ctrl-Z does. The kernel ignores this if
    /// there is no shell to continue it.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back()?;
        kill_current_process_group(Signal::TSTP)?;
        Ok(())
    }

    /// Takes over the terminal again.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        // The shell has set its own modes, which must be restored later.
        disable_raw_mode()?;
        take()?;
        self.repaint()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = give_back();
    }
}

/// Returns a receiver of the terminal's events: keys and new sizes.
pub(super) fn listen() -> mpsc::Receiver<io::Result<Event>> {
    let (sender, receiver) = mpsc::channel(KEYS);
    // The thread ends with the process: nothing else ends waiting for a key.
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

/// Restores the terminal before a panic prints its message, so that the message is readable.
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

/// Limit of keys that wait until the picture is drawn.
const KEYS: usize = 64;
