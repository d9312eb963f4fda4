//! `hawser why`.

use hawser_types::ByteCount;

use crate::figures::{
    MIN_WIDTH, clock, left_out, milliseconds_with_unit, seconds, size, span, wrap,
};
use crate::packet_flows;
use crate::placed::placed;
use crate::status::left;
use crate::table::{Side, Table, printable};
use hawser_control::{Role, WhyEvent, WhyLink, WhyReport, WhySession, WhyStream};

/// Returns the report in words, in lines of at most `width` columns, at least 40, with a line end.
pub fn render_why(report: &WhyReport, width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut lines = Vec::new();
    for session in &report.sessions {
        lines.extend(session_lines(session, report.role, width));
        lines.push(String::new());
    }
    if let Some(report) = &report.placed {
        lines.extend(placed(report, width));
        lines.push(String::new());
    } else if report.sessions.is_empty() {
        lines.push("No session runs.\n".to_owned());
    }
    let more = left_out(report.session_count, report.sessions.len(), "sessions");
    lines.extend(more.map(|more| more + ": name one with --session ID\n"));
    lines.join("\n")
}

fn session_lines(session: &WhySession, role: Role, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let about = match (session.stream, &session.destination) {
        (None, _) => format!("SESSION {} with {}", session.id, session.peer),
        (Some(id), None) => format!("STREAM {} of session {}", id.value(), session.id),
        (Some(id), Some(to)) => {
            format!("STREAM {} to {to}, of session {}", id.value(), session.id)
        }
    };
    let head = format!(
        "{about}: {} for {}",
        printable(&session.scheduler),
        span(session.age)
    );
    wrap(&mut lines, &printable(&head), width);
    lines.extend(left(session.is_left).map(str::to_owned));
    if session.links.iter().all(|link| link.chunks == 0) {
        lines.push("Nothing was sent yet, so that no link was chosen.".to_owned());
    }
    for link in &session.links {
        wrap(&mut lines, &link_text(link, &session.events), width);
    }
    let others = session.events.iter().filter(|it| it.link.is_none());
    others.for_each(|event| wrap(&mut lines, &event_text(event), width));
    lines.extend(streams(&session.streams, width));
    for flow in &session.packet_flows {
        wrap(&mut lines, &packet_flows::reasons(flow), width);
    }
    match &session.received {
        Some(far) => lines.extend(received_lines(far, role, width)),
        None => {
            let text = the_other_way(session, role);
            text.iter().for_each(|text| wrap(&mut lines, text, width));
        }
    }
    lines
}

/// Returns the far end's reasons.
fn received_lines(far: &WhySession, role: Role, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let sent = far.links.iter().map(|link| link.bytes_sent.as_u64());
    let sent = sent.fold(0, u64::saturating_add);
    let head = format!(
        "RECEIVED: {} came the other way. {} chose the links by {} and says:",
        size(ByteCount::new(sent)),
        capital(them(role)),
        printable(&far.scheduler)
    );
    wrap(&mut lines, &head, width);
    for link in &far.links {
        wrap(&mut lines, &link_text(link, &far.events), width);
    }
    let others = far.events.iter().filter(|it| it.link.is_none());
    others.for_each(|event| wrap(&mut lines, &event_text(event), width));
    for flow in &far.packet_flows {
        wrap(&mut lines, &packet_flows::reasons(flow), width);
    }
    lines
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the name of the far end's role.
fn them(role: Role) -> &'static str {
    match role {
        Role::Client => "the gateway",
        Role::Sender => "the receiver",
        _ => "the client",
    }
}

/// Returns everything known of a link, as one paragraph.
fn link_text(link: &WhyLink, events: &[WhyEvent]) -> String {
    let mut text = format!("{}: ", printable(&link.link));
    text += &match link.bytes_sent {
        ByteCount::ZERO => "carried nothing".to_owned(),
        bytes => format!("carried {}, {}", percent(link.share), size(bytes)),
    };
    text += &match link.bytes_associated {
        ByteCount::ZERO => String::new(),
        all if all == link.bytes_sent => " over an association".to_owned(),
        part => format!(", {} of it over an association", size(part)),
    };
    if link.bytes_copied > ByteCount::ZERO {
        text += &format!(
            ", and {} more as copies of what other links had",
            size(link.bytes_copied)
        );
    }
    text.push('.');
    for count in &link.chosen {
        text += &format!(
            " It got {}, because {}.",
            chunks(count.chunks),
            printable(&count.meaning)
        );
    }
    let placed = link.chunks.max(1) as f64;
    for count in &link.passed_over {
        text += &format!(
            " For {} of all chunks it was passed over: {}",
            percent(count.chunks as f64 / placed),
            printable(&count.meaning)
        );
        if let Some(later) = link.later.filter(|_| count.why == "later") {
            text += &format!(
                " ({} against {} by the one chosen)",
                milliseconds_with_unit(later.here),
                milliseconds_with_unit(later.there)
            );
        }
        text.push('.');
    }
    for held in &link.held_back {
        text += &format!(
            " It could have sent, but waited for {} in total, because {}.",
            seconds(held.span),
            printable(&held.meaning)
        );
    }
    text += &own_events(link, events);
    text += match (link.channel_count, link.suspect_count) {
        (0, _) => " It has no connection now.",
        (all, silent) if silent >= all => " It is silent now.",
        _ => "",
    };
    text
}

/// Returns the latest events of a link.
fn own_events(link: &WhyLink, events: &[WhyEvent]) -> String {
    let mut text = String::new();
    let own: Vec<_> = events
        .iter()
        .filter(|event| event.link.as_ref() == Some(&link.link))
        .collect();
    let hidden = own.len().saturating_sub(MAX_EVENTS);
    if hidden > 0 {
        text += &format!(" {hidden} earlier events are left out.");
    }
    for event in own.into_iter().skip(hidden) {
        text.push(' ');
        text += &event_text(event);
    }
    text
}

fn event_text(event: &WhyEvent) -> String {
    let at = clock(event.at_unix_ms);
    let channel = event.channel.map(|channel| channel.to_string());
    let channel = channel.unwrap_or_else(|| "it".to_owned());
    let chunks = chunks(event.chunks.unwrap_or_default());
    let span = seconds(event.span.unwrap_or_default());
    let detail = printable(event.detail.as_deref().unwrap_or_default());
    match event.what.as_str() {
        "added" => format!("At {at} {channel} was added ({detail})."),
        "silent" => format!(
            "At {at} {channel} had not answered for {span}; {chunks} on it were also sent over other \
             links."
        ),
        "stalled" => format!(
            "At {at} {channel} had stalled; {chunks} on it that others waited for were sent again."
        ),
        "recovered" => format!("At {at} {channel} answered again after {span}."),
        "lost" if event.chunks == Some(0) => format!("At {at} {channel} was lost."),
        "lost" => format!("At {at} {channel} was lost; {chunks} on it were sent over other links."),
        "standing" => format!("At {at} its state changed: {detail}."),
        "transport" => format!("At {at} chunks began to use {detail}."),
        "policy" => format!("At {at} the policy became {detail}."),
        other => format!("At {at}: {} {detail}.", printable(other)),
    }
}

fn streams(streams: &[WhyStream], width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("STREAM", Side::Right),
        ("TO", Side::Flexible),
        ("SENT", Side::Right),
    ]);
    let shown = streams.iter().rev().take(MAX_STREAMS);
    for stream in shown.clone() {
        let over = match stream.id.value() {
            0 => "(commands)",
            _ => "(over)",
        };
        table.push([
            stream.id.value().to_string(),
            stream.destination.clone().unwrap_or_else(|| over.into()),
            size(stream.bytes_sent),
        ]);
    }
    let mut lines = if table.is_empty() {
        Vec::new()
    } else {
        table.lines(2, width)
    };
    lines.extend(left_out(streams.len() as u64, shown.len(), "streams"));
    lines
}

/// Returns a note on where to find the reasons for received data.
fn the_other_way(session: &WhySession, role: Role) -> Option<String> {
    if session.bytes_received == ByteCount::ZERO {
        return None;
    }
    let them = them(role);
    Some(format!(
        "This covers the data sent from here. {} came the other way; {them} chose the links for \
         that: run `hawser why` there.",
        size(session.bytes_received)
    ))
}

fn chunks(count: u64) -> String {
    match count {
        1 => "1 chunk".to_owned(),
        _ => format!("{count} chunks"),
    }
}

fn percent(share: f64) -> String {
    let percent = share.clamp(0.0, 1.0) * 100.0;
    match percent {
        // A small share is not shown as zero, and nearly everything not as everything.
        p if p > 0.0 && p < 0.5 => "less than 1 %".to_owned(),
        p if (99.5..100.0).contains(&p) => "more than 99 %".to_owned(),
        _ => format!("{percent:.0} %"),
    }
}

const MAX_STREAMS: usize = 20;
/// Limit of events shown per link.
const MAX_EVENTS: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::{ChannelId, LinkIndex, StreamId};

    use super::*;
    use hawser_control::{WhyCount, WhyLater, WhySpan};

    fn count(why: &str, meaning: &str, chunks: u64) -> WhyCount {
        WhyCount {
            why: why.to_owned(),
            meaning: meaning.to_owned(),
            chunks,
        }
    }

    fn event(what: &str, at_unix_ms: u64, millis: u64) -> WhyEvent {
        WhyEvent {
            at_unix_ms,
            what: what.to_owned(),
            link: Some("wwan0".to_owned()),
            channel: Some(ChannelId::new(4)),
            chunks: Some(41),
            span: Some(Duration::from_millis(millis)),
            detail: None,
        }
    }

    fn report() -> WhyReport {
        let slow = WhyLink {
            link: "wwan0".to_owned(),
            index: LinkIndex::new(3),
            bytes_sent: ByteCount::new(1_800_000),
            bytes_associated: ByteCount::new(600_000),
            share: 0.18,
            bytes_copied: ByteCount::new(20_000),
            chunks: 1000,
            chosen: vec![count("earliest", "the chunk would arrive there first", 180)],
            passed_over: vec![
                count("later", "the chunk would have arrived later over it", 620),
                count("silent", "it was silent where an answer was due", 2),
            ],
            held_back: vec![WhySpan {
                why: "quicker-soon".to_owned(),
                meaning: "a faster link was about to become free".to_owned(),
                span: Duration::from_millis(3140),
            }],
            later: Some(WhyLater {
                here: Duration::from_millis(240),
                there: Duration::from_micros(31_400),
            }),
            channel_count: 2,
            suspect_count: 0,
        };
        let session = WhySession {
            id: "1a2b".to_owned(),
            peer: "gw\u{1b}".to_owned(),
            is_left: false,
            scheduler: "auto".to_owned(),
            age: Duration::from_secs(75),
            stream: Some(StreamId::new(6)),
            destination: Some("example.org:443".to_owned()),
            bytes_received: ByteCount::new(45_000_000),
            links: vec![slow, WhyLink::default()],
            streams: Vec::new(),
            packet_flows: Vec::new(),
            events: vec![
                event("silent", 43_384_100, 300),
                event("recovered", 43_384_900, 800),
            ],
            received: None,
        };
        WhyReport {
            role: Role::Client,
            sessions: vec![session],
            session_count: 1,
            placed: None,
        }
    }

    #[test]
    fn a_link_is_explained_in_words_with_numbers() {
        let text = render_why(&report(), 10_000);
        let expected = [
            "STREAM 6 to example.org:443, of session 1a2b: auto for 1m 15s",
            "wwan0: carried 18 %, 1.80 MB, 600 kB of it over an association, and 20.0 kB more as \
             copies of what other links had. It got 180 chunks, because the chunk would arrive there first. For 62 % of all chunks it \
             was passed over: the chunk would have arrived later over it (240 ms against 31 ms by \
             the one chosen). For less than 1 % of all chunks it was passed over: it was silent \
             where an answer was due. It could have sent, but waited for 3.1 s in total, because a \
             faster link was about to become free. At 12:03:04.1 UTC channel 4 had not answered for \
             300 ms; 41 chunks on it were also sent over other links. At 12:03:04.9 UTC channel 4 \
             answered again after 800 ms.",
            ": carried nothing. It has no connection now.",
            "This covers the data sent from here. 45.0 MB came the other way; the gateway chose \
             the links for that: run `hawser why` there.",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_the_far_end_says_of_its_own_side_comes_last_and_commands_no_terminal() {
        let mut report = report();
        let far = WhySession {
            scheduler: "ec\u{1b}f".to_owned(),
            links: vec![WhyLink {
                link: "wwan0".to_owned(),
                bytes_sent: ByteCount::new(45_000_000),
                bytes_associated: ByteCount::new(45_000_000),
                share: 1.0,
                chunks: 7,
                chosen: vec![count("x", "it\u{7} was there", 7)],
                channel_count: 1,
                ..WhyLink::default()
            }],
            received: Some(Box::default()),
            ..WhySession::default()
        };
        let json = serde_json::to_vec(&far).unwrap();
        let far = WhySession::of_far_end(&json).unwrap();
        assert_eq!(far.received, None);
        report.sessions[0].received = Some(Box::new(far));
        let text = render_why(&report, 10_000);
        let said: Vec<_> = text.lines().rev().take(2).collect();
        let expected = [
            "wwan0: carried 100 %, 45.0 MB over an association. It got 7 chunks, because it? was there.",
            "RECEIVED: 45.0 MB came the other way. The gateway chose the links by ec?f and says:",
        ];
        assert_eq!(said, expected);
        assert_eq!(WhySession::of_far_end(b"{}"), None);
        assert_eq!(WhySession::of_far_end(&vec![b' '; 70_000]), None);
    }

    #[test]
    fn lines_are_as_wide_as_allowed_and_carry_no_control_characters() {
        let mut report = report();
        report.sessions[0].stream = None;
        report.sessions[0].streams = vec![WhyStream {
            id: StreamId::new(6),
            destination: None,
            bytes_sent: ByteCount::new(5),
        }];
        report.session_count = 3;
        let text = render_why(&report, 60);
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        assert!(text.contains("gw?") && text.contains("(over)"), "{text}");
        assert!(text.contains("and 2 more sessions"), "{text}");
        assert!(render_why(&WhyReport::default(), 80).starts_with("No session runs."));
    }
}
