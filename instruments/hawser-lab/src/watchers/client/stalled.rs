//! Feeds that are not read.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::outcome::WatcherOutcome;
use super::site::{FEED, Site, say_ready, status};

/// Asks for so many feeds, and reads none of them. A client that is refused or cut off comes back
/// after the time that refusals name, so that there are always as many.
pub(super) fn stall(site: &Site<'_>, feeds: u16) -> anyhow::Result<WatcherOutcome> {
    let mut seen = WatcherOutcome::default();
    let mut seats: Vec<Seat> = (0..feeds).map(|_| Seat::take(site, &mut seen)).collect();
    leave(&mut seats, &mut seen)?;
    // From now on they come back one after the other, not all in the same moment.
    for (number, seat) in (0..).zip(&mut seats) {
        if let Seat::Empty(until) = seat {
            *until = Instant::now() + RETRY * number / u32::from(feeds);
        }
    }
    say_ready()?;
    while !site.is_over() {
        for seat in &mut seats {
            if matches!(seat, Seat::Empty(until) if *until <= Instant::now()) {
                *seat = Seat::take(site, &mut seen);
            }
        }
        leave(&mut seats, &mut seen)?;
        let is_open = |seat: &&Seat| matches!(seat, Seat::Taken(feed) if feed.told == Some(200));
        let open = seats.iter().filter(is_open).count();
        seen.most_feeds = seen.most_feeds.max(open);
    }
    for seat in seats {
        if let Seat::Taken(feed) = seat {
            seen.note(WHAT, feed.told);
        }
    }
    Ok(seen)
}

enum Seat {
    /// Empty until this time.
    Empty(Instant),
    Taken(Feed),
}

struct Feed {
    stream: TcpStream,
    /// The status of the answer, once that has begun.
    told: Option<u16>,
}

impl Seat {
    fn take(site: &Site<'_>, seen: &mut WatcherOutcome) -> Self {
        let open = || {
            // Little has to be sent until all of it waits on the other side.
            let mut stream = site.connect_with(Some(ROOM))?;
            stream.write_all(site.head(FEED, "").as_bytes())?;
            stream.set_nonblocking(true)?;
            Ok::<_, io::Error>(stream)
        };
        match open() {
            Ok(stream) => Self::Taken(Feed { stream, told: None }),
            Err(_) => {
                seen.note(WHAT, None);
                Self::Empty(Instant::now() + RETRY)
            }
        }
    }
}

impl Feed {
    /// Sees how the answer begins, and leaves it where it is.
    fn look(&mut self) {
        let mut begin = [0; 12];
        if self.told.is_none()
            && let Ok(count) = self.stream.peek(&mut begin)
        {
            self.told = status(&begin[..count]);
        }
    }
}

/// Waits for a moment, and gives up the seats of those whom the server has sent away.
fn leave(seats: &mut [Seat], seen: &mut WatcherOutcome) -> io::Result<()> {
    let taken = |seat: &Seat| match seat {
        Seat::Taken(feed) => feed.stream.as_raw_fd(),
        // The kernel passes over it.
        Seat::Empty(_) => -1,
    };
    let mut asked: Vec<_> = seats
        .iter()
        .map(|seat| libc::pollfd {
            fd: taken(seat),
            // Not that there is something to read.
            events: libc::POLLRDHUP,
            revents: 0,
        })
        .collect();
    // Clients that are sent away meanwhile are seen together.
    std::thread::sleep(PAUSE);
    // Answers are read before ends are asked for: so all feeds that count were open when the last
    // answer was read.
    for seat in &mut *seats {
        if let Seat::Taken(feed) = seat {
            feed.look();
        }
    }
    // SAFETY: the kernel writes into so many entries of the list.
    let found = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    for (seat, asked) in seats.iter_mut().zip(asked) {
        if let Seat::Taken(feed) = seat
            && asked.revents != 0
        {
            seen.note(WHAT, feed.told);
            *seat = Seat::Empty(Instant::now() + RETRY);
        }
    }
    Ok(())
}

const WHAT: &str = "feed";
/// Bytes; the kernel takes at least its own minimum.
const ROOM: usize = 4096;
const PAUSE: Duration = Duration::from_millis(100);
/// Pause that a refusal names (`Retry-After`).
const RETRY: Duration = Duration::from_secs(5);
