//! Requests for doing otherwise.

use hawser_control::{Request, Response};

use super::Shared;
use super::answers::unsupported;

/// How links are chosen.
pub(super) fn policy(shared: &Shared) -> Response {
    let policy = shared.subject.get().and_then(|subject| subject.policy());
    policy.map_or_else(no_choice, |policy| Response::Policy(Box::new(policy)))
}

/// Does what is asked.
pub(super) fn change(shared: &Shared, asked: &Request) -> Response {
    let changed = shared.subject.get().and_then(|it| it.change(asked));
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
