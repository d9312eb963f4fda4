//! The scopes that `--capture` names.

use hawser_config::{CaptureScope, UpConfig};

use crate::kill_switch::shut_refused;
use crate::proxy::lan::Lans;
use crate::setup::Usage;

/// Scopes of the capture, by the part that captures them.
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
                            "--capture {other} and --capture {programs}: only one of them can \
                             capture programs"
                        );
                        return Err(Usage(problem).into());
                    }
                }
            }
        }
        Ok(scopes)
    }
}

/// Finds the networks behind this machine. If an interface is refused, makes an active kill switch
/// block it: the kill switch opens interfaces with hosts behind them.
pub(super) async fn find_lans(
    interfaces: Vec<String>,
    config: &UpConfig,
) -> anyhow::Result<Option<Lans>> {
    let found = Lans::find(interfaces, &config.links).await;
    if found.is_err()
        && let Err(error) = shut_refused(config).await
    {
        tracing::warn!("can't make an active kill switch block refused interfaces: {error:#}");
    }
    found
}

pub(super) const LAN_WITHOUT_GATEWAY: &str = "--capture lan: needs a gateway that carries packets: enrol with \
                                   one by --gateway, and leave --direct out";
