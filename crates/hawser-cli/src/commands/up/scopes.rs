//! What `--capture` names.

use hawser_config::CaptureScope;

use crate::setup::Usage;

/// Whose traffic is captured, by what takes it.
pub(super) struct Scopes {
    /// Programs of this machine.
    pub(super) programs: Option<CaptureScope>,
    /// Interfaces with hosts behind them.
    pub(super) lans: Vec<String>,
}

impl Scopes {
    pub(super) fn of(all: &[CaptureScope]) -> anyhow::Result<Self> {
        let mut scopes = Self {
            programs: None,
            lans: Vec::new(),
        };
        for scope in all {
            match scope {
                CaptureScope::Lan(name) if scopes.lans.contains(name) => {}
                CaptureScope::Lan(name) => scopes.lans.push(name.clone()),
                programs => {
                    if let Some(other) = scopes.programs.replace(programs.clone()) {
                        let problem = format!(
                            "--capture {other} and --capture {programs}: programs are captured by \
                             one of them"
                        );
                        return Err(Usage(problem).into());
                    }
                }
            }
        }
        Ok(scopes)
    }
}
