//! The far end's reasons for the links that it chose for its data to this host.

use std::time::Duration;

use hawser_control::{MAX_FAR_END, Response, WhyLink, WhySession};
use hawser_front::bonded::Purpose;
use hawser_net::client::Client;
use hawser_types::{ByteCount, StreamId};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::state::State;

/// Asks the far ends of the sessions in an answer, and adds their reasons. Leaves out a far end of
/// an older version, and one that does not answer soon.
pub(super) async fn add(state: &State, response: &mut Response) {
    let (Response::Why(report), Some(subject)) = (response, state.subject()) else {
        return;
    };
    // For an ended stream, this host does not know how many bytes it received.
    let has_received = |it: &&mut WhySession| {
        let mut packets = it.packet_flows.iter().map(|flow| flow.bytes_received);
        it.stream.is_some()
            || it.bytes_received > ByteCount::ZERO
            || packets.any(|bytes| bytes > ByteCount::ZERO)
    };
    for session in report.sessions.iter_mut().filter(has_received).take(MOST) {
        let Some(client) = subject.client(&session.id) else {
            continue;
        };
        let said = timeout(PATIENCE, ask(&client, session.stream)).await;
        session.received = said.ok().flatten().map(|mut said| {
            name_links(&mut said, &session.links);
            Box::new(said)
        });
    }
}

async fn ask(client: &Client, stream: Option<StreamId>) -> Option<WhySession> {
    let asked = client.open(Purpose::Reasons(stream).opening()).await;
    let mut asked = asked.ok()?;
    asked.accepted().await.ok()?;
    let mut answer = Vec::new();
    let most = MAX_FAR_END as u64 + 1;
    asked.take(most).read_to_end(&mut answer).await.ok()?;
    WhySession::of_far_end(&answer)
}

/// Gives the links in the far end's report `said` their names on this host: the far end knows only
/// their interface numbers.
fn name_links(said: &mut WhySession, own: &[WhyLink]) {
    let name = |index| own.iter().find(|it| it.index == index);
    for link in said.packet_flows.iter_mut().flat_map(|it| &mut it.links) {
        if let Some(known) = name(link.index) {
            link.link.clone_from(&known.link);
        }
    }
    for link in &mut said.links {
        let Some(known) = name(link.index) else {
            continue;
        };
        for event in &mut said.events {
            if event.link.as_ref() == Some(&link.link) {
                event.link = Some(known.link.clone());
            }
        }
        link.link.clone_from(&known.link);
    }
}

/// Limit of far ends that are asked, one after the other.
const MOST: usize = 4;
const PATIENCE: Duration = Duration::from_secs(2);
