//! `hawser policy`: shows or changes how the running daemon chooses links.

use std::time::Duration;

use anyhow::bail;
use hawser_control::{ErrorReason, PolicyStatus, Request, Response, Scheduled, SessionStatus};
use hawser_text::{printable, render_policy};

use crate::args::{PolicyAction, PolicyArgs, PolicySetArgs};
use crate::client::ask::{Conversation, OTHER_ANSWER, width};
use hawser_daemon::setup::{Setup, show, show_json};

/// Shows the policy, or changes it in the daemon.
pub(crate) async fn run(setup: &Setup, args: &PolicyArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    if let Some(PolicyAction::Set(args)) = &args.action {
        for asked in requests(args) {
            conversation.change(&asked).await?;
        }
        if args.scheduler.is_some() {
            say_who_keeps_to_its_own(&mut conversation).await?;
        }
        return Ok(());
    }
    let policy = ask(&mut conversation).await?;
    if args.table.json {
        show_json(&policy)
    } else {
        show(&render_policy(&policy, width()))
    }
}

/// Lists the gateways and peers that keep their own policy for what they send.
async fn say_who_keeps_to_its_own(conversation: &mut Conversation) -> anyhow::Result<()> {
    let request = Request::Status {
        sessions: None,
        streams: Some(0),
    };
    let Response::Status(status) = conversation.ask(&request).await? else {
        bail!(OTHER_ANSWER);
    };
    let keeps = |session: &&SessionStatus| session.peer_follows_scheduler == Some(false);
    for session in status.sessions.iter().filter(keeps) {
        eprintln!(
            "hawser: {} does not follow this change: its own policy governs the data that it sends",
            printable(&session.peer)
        );
    }
    Ok(())
}

/// Returns how the daemon chooses links.
async fn ask(conversation: &mut Conversation) -> anyhow::Result<PolicyStatus> {
    match conversation.ask(&Request::Policy).await? {
        Response::Policy(policy) => Ok(*policy),
        _ => bail!(OTHER_ANSWER),
    }
}

/// Like `ask`, but returns `None` if the daemon has no policy, has not connected yet, or is too
/// old for the request: in these cases nothing was changed at run time.
pub(crate) async fn ask_if_any(
    conversation: &mut Conversation,
) -> anyhow::Result<Option<PolicyStatus>> {
    use ErrorReason::{Malformed, Unsupported};
    match conversation
        .answer(Duration::ZERO, &Request::Policy)
        .await?
    {
        Response::Policy(policy) => Ok(Some(*policy)),
        Response::Error { reason, message } => match reason {
            Malformed | Unsupported => Ok(None),
            _ => bail!("the daemon says: {message}"),
        },
        _ => bail!(OTHER_ANSWER),
    }
}

fn requests(args: &PolicySetArgs) -> Vec<Request> {
    let save = args.save;
    let scheduler = |of, name: &str| Request::SetScheduler {
        of,
        scheduler: name.to_owned(),
        save,
    };
    let sessions = args
        .scheduler
        .map(|it| scheduler(Scheduled::Sessions, it.name()));
    let connections = args.connection_scheduler;
    let connections = connections.map(|it| scheduler(Scheduled::Connections, it.name()));
    let packets = args.packet_scheduler;
    let packets = packets.map(|it| scheduler(Scheduled::Packets, it.name()));
    let transport = args.transport.map(|transport| Request::SetTransport {
        transport: transport.name().to_owned(),
        save,
    });
    let gateway = args.via_gateway.map(|usage| Request::SetGateway {
        usage: usage.name().to_owned(),
        save,
    });
    let profile = args.profile.map(|profile| Request::SetProfile {
        profile: profile.name().to_owned(),
        save,
    });
    [sessions, connections, packets, transport, gateway, profile]
        .into_iter()
        .flatten()
        .collect()
}
