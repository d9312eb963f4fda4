//! Passes keys, answers and ticks to the state, requests to the daemon, and pictures to the
//! terminal.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use hawser_control::Response;
use ratatui::crossterm::event::Event;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::daemon::{Ask, NoAnswer};
use super::keys::Wish;
use super::look::Look;
use super::state::State;
use super::terminal::{Screen, listen};

/// Shows and controls the daemon on this process's terminal until the user quits or a signal
/// arrives.
///
/// Sends some requests to the daemon each second, one after the other, and asks for its state
/// twice. Fails if the terminal fails.
pub async fn run(look: Look, daemon: impl Ask) -> io::Result<()> {
    let mut ends = Ends::listen()?;
    // Continue signal after the process was stopped.
    let mut carry_on = unix::signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut screen = Screen::open()?;
    let mut keys = listen();
    let mut state = State::new(look, screen.size()?);
    let mut second = ticks(SECOND);
    let mut looks = ticks(LOOK);
    let mut pictures = ticks(PICTURE);
    let mut answer: Option<Answer<'_>> = None;
    let mut is_stale = true;
    loop {
        if answer.is_none() {
            let request = state.poll_request();
            answer = request.map(|request| Box::pin(daemon.ask(request)) as Answer<'_>);
        }
        tokio::select! {
            event = keys.recv() => {
                match take_keys(&mut state, event, &mut keys)? {
                    Wish::Show => {}
                    Wish::Repaint => screen.repaint()?,
                    Wish::Suspend => {
                        screen.suspend()?;
                        // The process is stopped at once, or never.
                        let _ = timeout(STOP, carry_on.recv()).await;
                        screen.resume()?;
                    }
                    Wish::Quit => return Ok(()),
                }
                screen.draw(&state)?;
                is_stale = false;
            }
            outcome = arrival(&mut answer) => {
                answer = None;
                let before = state.link_states();
                state.handle_answer(outcome);
                is_stale = state.link_states() == before;
                if !is_stale {
                    screen.draw(&state)?;
                }
            }
            _ = second.tick() => state.handle_second(),
            _ = looks.tick() => state.handle_look(),
            _ = pictures.tick(), if is_stale => {
                screen.draw(&state)?;
                is_stale = false;
            }
            _ = carry_on.recv() => {
                screen.resume()?;
                is_stale = true;
            }
            _ = ends.terminate.recv() => return Ok(()),
            _ = ends.interrupt.recv() => return Ok(()),
            _ = ends.hang_up.recv() => return Ok(()),
        }
    }
}

/// The answer to a request in progress.
type Answer<'a> = Pin<Box<dyn Future<Output = Result<Response, NoAnswer>> + 'a>>;

/// Resolves with the answer, if a request is in progress.
async fn arrival(answer: &mut Option<Answer<'_>>) -> Result<Response, NoAnswer> {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

/// Handles a key and those waiting behind it, up to one that the terminal has to act on.
fn take_keys(
    state: &mut State,
    first: Option<io::Result<Event>>,
    more: &mut mpsc::Receiver<io::Result<Event>>,
) -> io::Result<Wish> {
    let mut next = first;
    while let Some(event) = next {
        match event? {
            Event::Key(key) => match state.handle_key(key) {
                Wish::Show => {}
                wish => return Ok(wish),
            },
            Event::Resize(columns, lines) => state.handle_size((columns, lines)),
            _ => {}
        }
        next = more.try_recv().ok();
    }
    Ok(Wish::Show)
}

/// Signals that end the program.
struct Ends {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hang_up: unix::Signal,
}

impl Ends {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hang_up: unix::signal(SignalKind::hangup())?,
        })
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

const SECOND: Duration = Duration::from_secs(1);
/// A link that becomes silent is shown within a second.
const LOOK: Duration = Duration::from_millis(500);
/// Minimum time between two pictures, unless a key was pressed or a link changed its state.
const PICTURE: Duration = Duration::from_millis(500);
/// Time within which a process that asked to be stopped is stopped.
const STOP: Duration = Duration::from_millis(200);
