use std::io::Write;
use std::time::Duration;

use hawser_sim::bulk::{Moment, Observer};
use hawser_wire::ChannelRole;

/// Prints how the sender stands, so often.
pub(crate) fn observer(every: Duration) -> Observer {
    Observer { every, tell: print }
}

/// Prints a line for the sender, and one for each of its channels.
fn print(moment: &Moment) {
    let mut text = String::new();
    let session = &moment.session;
    text += &format!(
        "{:10.3} s: {} arrived, {} unacknowledged, {} again, {} twice",
        moment.age.as_secs_f64(),
        moment.arrived,
        session.unacknowledged,
        session.counters.bytes_again,
        session.counters.bytes_duplicated,
    );
    for stream in &session.streams {
        text += &format!(", {}: {} queued", stream.id, stream.queued);
    }
    for channel in &session.channels {
        let role = match channel.role {
            ChannelRole::Bulk => "bulk",
            ChannelRole::Express => "express",
        };
        let suspect = if channel.suspect { ", suspect" } else { "" };
        text += &format!(
            "\n    link {} {role}: {} in flight of {}, rtt {:.1} ms, {}, {} sent again{suspect}",
            channel.link.value(),
            channel.in_flight,
            channel.congestion_window,
            channel.rtt.as_secs_f64() * 1e3,
            channel.rate,
            channel.retransmissions,
        );
    }
    // A trace that can't be written is dropped.
    let _ = writeln!(std::io::stderr(), "{text}");
}
