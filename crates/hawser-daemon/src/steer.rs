//! Requests that change how a daemon works.

use hawser_control::{ErrorReason, Request, Response};

use super::state::State;

/// Returns how links are chosen.
pub(super) fn policy(state: &State) -> Response {
    let policy = state.subject().and_then(|subject| subject.policy());
    policy.map_or_else(no_choice, |policy| Response::Policy(Box::new(policy)))
}

/// Carries out a change.
pub(super) fn change(state: &State, asked: &Request) -> Response {
    let changed = state.subject().and_then(|it| it.change(asked));
    match changed {
        None => no_choice(),
        Some(Ok(saved)) => Response::Done {
            saved: saved.map(|path| path.display().to_string()),
        },
        Some(Err(refused)) => Response::Error {
            reason: refused.reason(),
            message: refused.to_string(),
        },
    }
}

fn no_choice() -> Response {
    unsupported("only `hawser up`, once it has connected, has links to choose from")
}

/// Returns the answer to a request that this daemon does not serve.
pub(super) fn unsupported(message: &str) -> Response {
    Response::Error {
        reason: ErrorReason::Unsupported,
        message: message.to_owned(),
    }
}
