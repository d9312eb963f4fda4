use std::io;
use std::net::SocketAddr;

use hawser_types::{Instant, LinkIndex};
use hawser_wire::{Heard, SynOption, SynOptionError};

use crate::ring::Rows;
use crate::sys::{self, Ring};
use crate::tables::{self, LearntRow};

/// Stream of handshake results, in order.
#[derive(Debug)]
pub struct Discoveries {
    rows: Rows,
}

/// The result of a handshake with a destination to which this host announced itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// The destination.
    pub to: SocketAddr,
    /// Link to which the socket was bound.
    pub link: Option<LinkIndex>,
    /// Time at which the kernel knew the result, by [`kernel_time`].
    pub at: Instant,
    /// Fate of the option.
    pub outcome: Outcome,
}

/// Returns the present time by the clock of [`Learnt::at`] (`CLOCK_BOOTTIME`). Like the server's
/// clock, it continues while this machine is suspended.
pub fn kernel_time() -> Instant {
    Instant::from_nanos(sys::boot_nanos())
}

/// Fate of an option in a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The SYN-ACK has the answer.
    Answered(SynOption),
    /// The SYN-ACK has no option: the server cannot bond, or a middlebox removed the option.
    Plain,
    /// The SYN-ACK has an option that answers another SYN, or has the SYN's own option, which a
    /// middlebox sent back.
    Echoed,
    /// The SYN-ACK has an option that cannot be read.
    Unreadable(SynOptionError),
    /// No answer in time: the SYN was repeated without the option. The first SYN was lost, or
    /// dropped for its option, or the destination does not exist. The answer to either SYN follows.
    Repeated,
    /// The SYN with the option went unanswered, and a later one without it was answered: the first
    /// was dropped for its option, or lost.
    AnsweredWithout,
}

impl Discoveries {
    pub(super) fn new(ring: Ring) -> io::Result<Self> {
        Rows::watch(ring).map(|rows| Self { rows })
    }

    /// Waits for the next result. It is cancel-safe.
    pub async fn next(&mut self) -> io::Result<Learnt> {
        self.rows.next(Learnt::read).await
    }
}

impl Learnt {
    /// Returns what the result reveals about the destination, apart from the path. Without an
    /// answer it is unknown whether the destination can bond.
    pub fn heard(&self) -> Heard {
        Heard {
            to: self.to,
            offer: match self.outcome {
                Outcome::Answered(answer) => Some(answer.offer),
                _ => None,
            },
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Self::new(&tables::read(bytes)?)
    }

    /// Converts a row; `None` if no program writes such a row.
    pub(super) fn new(row: &LearntRow) -> Option<Self> {
        let attempt = &row.attempt;
        let syn = SynOption::find(&attempt.question).ok()??;
        let options = row.options.get(..row.length as usize)?;
        let outcome = match row.kind {
            tables::LEARNT_REPEATED => Outcome::Repeated,
            tables::LEARNT_ANSWERED => match Outcome::of(&syn, options) {
                // This SYN-ACK answers the second SYN, which had no option.
                Outcome::Plain if attempt.repeated != 0 => Outcome::AnsweredWithout,
                outcome => outcome,
            },
            _ => return None,
        };
        Some(Self {
            to: SocketAddr::new(tables::unmapped(attempt.remote), attempt.port),
            link: (attempt.link != 0).then(|| LinkIndex::new(attempt.link)),
            at: Instant::from_nanos(row.at),
            outcome,
        })
    }
}

impl Outcome {
    fn of(syn: &SynOption, options: &[u8]) -> Self {
        match SynOption::find(options) {
            Ok(Some(answer)) if answer.is_answer_to(syn) => Self::Answered(answer),
            Ok(Some(_)) => Self::Echoed,
            Ok(None) => Self::Plain,
            Err(error) => Self::Unreadable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_wire::OfferForm;

    use super::*;

    fn row(kind: u32, repeated: u32, options: &[u8]) -> LearntRow {
        let mut row = LearntRow {
            cookie: 7,
            kind,
            length: options.len() as u32,
            ..LearntRow::default()
        };
        row.options[..options.len()].copy_from_slice(options);
        row.attempt.remote = tables::mapped("192.0.2.1".parse().unwrap());
        row.attempt.port = 443;
        row.attempt.link = 3;
        row.attempt.repeated = repeated;
        row.attempt.question[..8].copy_from_slice(b"\xfe\x08024711");
        row
    }

    fn outcome(kind: u32, repeated: u32, options: &[u8]) -> Option<Outcome> {
        Learnt::new(&row(kind, repeated, options)).map(|learnt| learnt.outcome)
    }

    #[test]
    fn an_answer_is_told_from_an_echo_and_from_none() {
        let answered = Learnt::new(&row(0, 0, b"\x02\x04\x05\xb4\xfe\x08035288")).unwrap();
        assert_eq!(answered.to, "192.0.2.1:443".parse().unwrap());
        assert_eq!(answered.link, Some(LinkIndex::new(3)));
        let offer = answered.heard().offer.unwrap();
        assert_eq!((offer.form, offer.interfaces), (OfferForm::Paper, 3));
        assert_eq!(outcome(0, 0, b"\xfe\x08024711"), Some(Outcome::Echoed));
        assert_eq!(outcome(0, 0, b"\xfe\x08034711"), Some(Outcome::Echoed));
        assert_eq!(outcome(0, 0, b"\x02\x04\x05\xb4"), Some(Outcome::Plain));
        let unreadable = Outcome::Unreadable(SynOptionError::Digit(b'x'));
        assert_eq!(outcome(0, 0, b"\xfe\x0803528x"), Some(unreadable));
    }

    #[test]
    fn what_answers_a_second_syn_says_nothing_of_the_server_unless_it_answers_the_first() {
        assert_eq!(outcome(1, 1, b""), Some(Outcome::Repeated));
        let second = outcome(0, 1, b"\x02\x04\x05\xb4");
        assert_eq!(second, Some(Outcome::AnsweredWithout));
        let late = outcome(0, 1, b"\xfe\x08035288");
        assert!(matches!(late, Some(Outcome::Answered(_))), "{late:?}");
    }

    /// Does nothing unless a variable tells the clock's offset: as after a suspend of that time.
    #[test]
    fn the_clock_counts_suspends() {
        if let Ok(ahead) = std::env::var(AHEAD) {
            let since = kernel_time().as_nanos() - sys::monotonic_nanos();
            assert!(since > ahead.parse::<u64>().unwrap() * 900_000_000);
            return;
        }
        let test = "discovery::learnt::tests::the_clock_counts_suspends";
        if hawser_skip::namespace::is_forbidden(test) {
            return;
        }
        let unshare = |program: &[&str]| {
            let mut command = std::process::Command::new("unshare");
            let arguments = ["--fork", "--time", "--boottime", "4000000", "--"];
            command.args(arguments).args(program).env(AHEAD, "4000000");
            command.output().is_ok_and(|it| it.status.success())
        };
        if !unshare(&["true"]) {
            return hawser_skip::skip(test, "no namespace of time here");
        }
        let own = std::env::current_exe().unwrap();
        assert!(unshare(&[own.to_str().unwrap(), "--exact", test]));
    }

    const AHEAD: &str = "HAWSER_TEST_CLOCK_AHEAD";

    #[test]
    fn rows_that_no_program_writes_are_passed_over() {
        assert_eq!(outcome(2, 0, b""), None);
        let mut long = row(0, 0, b"");
        long.length = 41;
        assert_eq!(Learnt::new(&long), None);
        assert_eq!(Learnt::new(&LearntRow::default()), None);
        assert_eq!(Learnt::read(&[0; 3]), None);
    }
}
