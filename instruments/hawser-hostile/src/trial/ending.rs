//! The program's reports of ended sessions, from its log.

use hawser_session::Limit;
use hawser_types::SessionId;

use crate::script::Reason;

/// The reason that a log gives for the end of a session; `None` while it has not ended.
///
/// # Errors
/// The line, if it gives a reason that no script knows.
pub(super) fn reason(log: &str, session: SessionId) -> Result<Option<Reason>, String> {
    let names = [
        format!("session{{id={session} "),
        format!("session={session}"),
    ];
    let is_about = |line: &&str| names.iter().any(|name| line.contains(name));
    let mut fault = None;
    for line in log.lines().filter(is_about) {
        if let Some((_, text)) = line.split_once("the peer is at fault") {
            let text = text.split_once("fault=").map_or(text, |(_, text)| text);
            fault = Some(Reason::Fault(text.to_owned()));
        } else if line.contains("is over") {
            let reason = fault.or_else(|| of_line(line));
            return reason.map(Some).ok_or(line.to_owned());
        }
    }
    Ok(None)
}

fn of_line(line: &str) -> Option<Reason> {
    let (_, rest) = line.split_once("reason=Some(")?;
    // What follows the closing bracket are other fields.
    let (name, _) = rest.split_once(')')?;
    match name.split_once('(') {
        None if name == "Abandoned" => Some(Reason::Lost),
        Some(("LimitExceeded", "Commands")) => Some(Reason::Limit(Limit::Commands)),
        Some(("LimitExceeded", "Record")) => Some(Reason::Limit(Limit::Record)),
        Some(("Peer", code)) => code.parse().ok().map(Reason::Asked),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
        INFO session{id=01010101 end=gateway}: the session is over reason=Some(Abandoned)\n\
        WARN driver: the session ends: the peer is at fault session=02020202 fault=so it is\n\
        INFO session{id=02020202 end=gateway}: the session is over reason=Some(Abandoned)\n\
        INFO session{id=03030303 end=gateway}: the session is over reason=Some(LimitExceeded(Commands))\n\
        WARN client: the session is over session=04040404 reason=Some(Peer(7)) problem=it ended it\n\
        WARN driver: the session ends: the peer is at fault session=05050505 fault=not over yet\n\
        INFO session{id=06060606 end=gateway}: the session is over reason=None\n";

    fn of(byte: u8) -> Result<Option<Reason>, String> {
        reason(LOG, SessionId::new([byte; 16]))
    }

    #[test]
    fn a_fault_counts_before_the_loss_that_follows_it() {
        assert_eq!(of(1), Ok(Some(Reason::Lost)));
        assert_eq!(of(2), Ok(Some(Reason::Fault("so it is".to_owned()))));
        assert_eq!(of(3), Ok(Some(Reason::Limit(Limit::Commands))));
        assert_eq!(of(4), Ok(Some(Reason::Asked(7))));
    }

    #[test]
    fn a_session_that_lives_has_no_reason_and_an_unknown_one_is_shown() {
        assert_eq!(of(5), Ok(None));
        assert_eq!(of(7), Ok(None));
        assert!(of(6).unwrap_err().contains("reason=None"));
    }
}
