//! `hawser events`: past and future changes in the running daemon.

use std::time::Duration;

use anyhow::bail;
use hawser_control::{Event, Request, Response};
use hawser_sched::rules::Date;
use hawser_text::{clock, render_change};

use crate::args::EventsArgs;
use crate::client::ask::{Conversation, DaemonEnded, OTHER_ANSWER};
use hawser_daemon::setup::{Setup, asked_to_end, show};

/// Prints the events that the daemon remembers; with `--follow`, also later events until it ends.
pub(crate) async fn run(setup: &Setup, args: EventsArgs) -> anyhow::Result<()> {
    let conversation = Conversation::with_daemon(&setup.state).await?;
    if !args.follow {
        return tell(conversation, args).await;
    }
    tokio::select! {
        // The signal handlers are installed before the first event is printed.
        biased;
        () = asked_to_end() => Ok(()),
        told = tell(conversation, args) => match told {
            Err(error) if error.is::<DaemonEnded>() => {
                eprintln!("hawser: the daemon has ended");
                Ok(())
            }
            told => told,
        },
    }
}

async fn tell(mut conversation: Conversation, args: EventsArgs) -> anyhow::Result<()> {
    let mut known = 0;
    loop {
        let wait = args.follow.then_some(WAIT);
        let request = Request::Events { after: known, wait };
        let wait = wait.unwrap_or_default();
        let answer = conversation.ask_for(wait, &request).await?;
        let Response::Events { events, latest } = answer else {
            bail!(OTHER_ANSWER);
        };
        let lines = events.iter().map(|event| line(event, args.table.json));
        show(&lines.collect::<Result<String, _>>()?)?;
        // The daemon sends a long list in several parts.
        known = events.last().map_or(latest, |event| event.id);
        if !args.follow && known >= latest {
            return Ok(());
        }
    }
}

fn line(event: &Event, json: bool) -> serde_json::Result<String> {
    let text = if json {
        serde_json::to_string(event)?
    } else {
        let (year, month, day) = Date::after_1970(event.at_unix_ms / DAY).parts();
        let time = clock(event.at_unix_ms);
        let what = render_change(&event.what);
        format!("{year:04}-{month:02}-{day:02} {time}  {what}")
    };
    Ok(text + "\n")
}

/// Longest time that the daemon may wait for new events.
const WAIT: Duration = Duration::from_secs(25);
/// A day in milliseconds.
const DAY: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use hawser_control::Change;

    use super::*;

    #[test]
    fn an_event_is_a_line_for_people_or_for_programs() {
        let event = Event {
            id: 7,
            at_unix_ms: 1_795_331_553_456,
            what: Change::LinkGone {
                link: "usb0".to_owned(),
            },
        };
        let text = line(&event, false).unwrap();
        assert_eq!(text, "2026-11-22 07:12:33.4 UTC  usb0 is gone\n");
        let json = line(&event, true).unwrap();
        let expected = r#"{"id":7,"at_unix_ms":1795331553456,"event":"link-gone","link":"usb0"}"#;
        assert_eq!(json, format!("{expected}\n"));
    }
}
