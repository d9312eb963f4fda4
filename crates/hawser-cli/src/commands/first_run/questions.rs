//! The questions of `hawser setup`, answered by the command line or by the user at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;
use hawser_config::{GatewaySource, HostPort};
use hawser_keys::invite::read_reference;
use hawser_link::links::{Link, usable};
use hawser_types::is_private;

use super::desktop::Desktop;
use super::systemd::Systemd;
use crate::args::{SetupArgs, Whose, YesNo};
use hawser_daemon::proxy::session::{is_enrolled, reference};
use hawser_daemon::setup::{Setup, Usage};

/// Role of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A client with several links.
    Client {
        /// An invite to enrol with.
        gateway: Option<GatewaySource>,
        /// Interfaces whose traffic costs money by volume.
        metered: Vec<String>,
    },
    /// A gateway for others; these addresses go into invites.
    Gateway { advertise: Vec<HostPort> },
}

/// The user's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) role: Role,
    /// The connections of all programs are captured.
    pub(super) is_captured: bool,
    /// Programs that follow the desktop's settings use the proxy port.
    pub(super) desktop: bool,
    /// The service starts now, and by itself from now on.
    pub(super) boot: bool,
}

/// State of the machine before the setup.
pub(super) struct Ground {
    pub(super) is_root: bool,
    /// The state directory is the one that the service uses.
    is_usual_state: bool,
    is_config_named: bool,
    /// The configuration contains `capture`.
    is_capture_configured: bool,
    is_enrolled: bool,
    /// Names and addresses of the links.
    links: Vec<(String, String)>,
    /// Every address of this machine is a private one.
    is_private: bool,
    desktop: Option<Desktop>,
    systemd: Systemd,
    runs_systemd: bool,
}

impl Ground {
    pub(super) fn look(setup: &Setup, links: &[Link]) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let systemd = Systemd { of_user: !is_root };
        let own = hawser_keys::store::StateDir::resolve(None);
        let usable = usable(links, &[]);
        let mut addresses = usable.iter().flat_map(|link| &link.addresses).copied();
        let shown = |link: &Link| {
            let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
            (link.name.clone(), addresses.join(", "))
        };
        Self {
            is_root,
            is_usual_state: own.is_ok_and(|own| own == setup.state),
            is_config_named: setup.config_file.is_named(),
            is_capture_configured: !setup.config.up.capture.is_empty(),
            is_enrolled: is_enrolled(&setup.state).unwrap_or(false),
            links: usable.iter().map(shown).collect(),
            is_private: addresses.all(is_private),
            desktop: (!is_root).then(Desktop::find).flatten(),
            systemd,
            runs_systemd: systemd.runs(),
        }
    }

    /// Refuses answers that can't be carried out, before anything is changed.
    pub(super) fn check(&self, answers: &Answers) -> anyhow::Result<()> {
        let wrong = |problem: &str| Err(Usage(problem.to_owned()).into());
        if answers.is_captured && !self.is_root {
            return wrong("--capture system needs root: `sudo hawser setup`");
        }
        if answers.desktop && self.desktop.is_none() {
            return wrong(if self.is_root {
                "--capture desktop is for a user's own desktop: run it without sudo"
            } else {
                "--capture desktop: no desktop is found whose proxy settings can be changed"
            });
        }
        if matches!(answers.role, Role::Gateway { .. }) && !self.is_root && answers.boot {
            return wrong("--serve needs root, for a service: `sudo hawser setup`; or --boot no");
        }
        if answers.boot && !self.runs_systemd {
            return wrong("--boot yes: systemd does not run here; use --boot no");
        }
        if answers.boot && !self.is_usual_state {
            return wrong("--boot yes: services use the usual state directory; leave out --state");
        }
        if answers.boot && self.is_config_named {
            return wrong("--boot yes: services read the usual configuration; leave out --config");
        }
        if answers.boot && !answers.is_captured && self.is_capture_configured {
            return wrong(
                "the configuration has `capture` in [up], for which a service has no rights: take \
                 it out, or use --capture system",
            );
        }
        if answers.desktop && !answers.boot {
            return wrong("--capture desktop needs --boot yes: else programs find no proxy there");
        }
        let (unit, other) = answers.units();
        if answers.boot && self.systemd.is_enabled(other) {
            return wrong(&format!(
                "{other} is enabled, and one of the two can run: `systemctl disable --now {other}`"
            ));
        }
        if answers.boot && self.is_root && !self.systemd.has(unit) {
            return wrong(&format!(
                "--boot yes: {unit} is not installed; install the package, or use --boot no"
            ));
        }
        if let Role::Client { metered, .. } = &answers.role {
            let known = |name: &String| self.links.iter().any(|(link, _)| link == name);
            if let Some(unknown) = metered.iter().find(|name| !known(name)) {
                // The interface may be plugged in later.
                eprintln!(
                    "hawser: no link is called {unknown} now; it will be metered when it appears"
                );
            }
        }
        Ok(())
    }
}

impl Answers {
    /// Takes answers from the command line, and asks for the rest at the terminal.
    pub(super) fn find(args: &SetupArgs, ground: &Ground) -> anyhow::Result<Self> {
        let mut asking = Asking::new(args.yes);
        let role = role(args, ground, &mut asking)?;
        let whose = match (&role, args.capture) {
            (Role::Gateway { .. }, _) => Whose::Proxy,
            (_, Some(whose)) => whose,
            (Role::Client { .. }, None) => asking.whose(ground)?,
        };
        let boot = match args.boot {
            Some(answer) => answer == YesNo::Yes,
            None => asking.boot(ground)?,
        };
        Ok(Self {
            role,
            is_captured: whose == Whose::System,
            desktop: whose == Whose::Desktop,
            boot,
        })
    }

    /// Returns the service for this role.
    pub(super) fn unit(&self) -> &'static str {
        self.units().0
    }

    /// Returns the service for this role, and the service that can't run beside it.
    fn units(&self) -> (&'static str, &'static str) {
        match self.role {
            Role::Client { .. } => (CLIENT, GATEWAY),
            Role::Gateway { .. } => (GATEWAY, CLIENT),
        }
    }
}

fn role(args: &SetupArgs, ground: &Ground, asking: &mut Asking) -> anyhow::Result<Role> {
    let first = match (&args.gateway, args.no_gateway, args.serve) {
        (Some(source), ..) => {
            read_reference(&reference(source)).context("--gateway")?;
            First::Client(Some(source.clone()))
        }
        (None, true, _) => First::Client(None),
        (None, _, true) => First::Gateway,
        (None, ..) => asking.first(ground)?,
    };
    match first {
        First::Client(gateway) => Ok(Role::Client {
            gateway,
            metered: if args.metered.is_empty() && !args.no_metered {
                asking.metered(ground)?
            } else {
                args.metered.clone()
            },
        }),
        First::Gateway => Ok(Role::Gateway {
            advertise: if args.advertise.is_empty() && ground.is_private {
                asking.advertise()?
            } else {
                args.advertise.clone()
            },
        }),
    }
}

/// The answer to the first question.
enum First {
    Client(Option<GatewaySource>),
    Gateway,
}

/// Asks questions at the terminal, or takes the defaults if the user has allowed that (`--yes`).
struct Asking {
    takes_usual: bool,
    number: u32,
}

impl Asking {
    fn new(takes_usual: bool) -> Self {
        Self {
            takes_usual,
            number: 0,
        }
    }

    fn first(&mut self, ground: &Ground) -> anyhow::Result<First> {
        let kept = if ground.is_enrolled {
            "Empty: keep the enrolled gateway"
        } else {
            "Empty: use no gateway"
        };
        let question = format!(
            "Which gateway? Enter its invite (hawser://… or @FILE), or `gateway` to make this \
             machine the gateway. {kept}"
        );
        self.ask(&question, "--gateway, --no-gateway or --serve", |text| {
            match text {
                "" => return Ok(First::Client(None)),
                "gateway" => return Ok(First::Gateway),
                _ => {}
            }
            let source: GatewaySource = text.parse().map_err(|error| format!("{error}"))?;
            read_reference(&reference(&source)).map_err(|error| error.to_string())?;
            Ok(First::Client(Some(source)))
        })
    }

    fn metered(&mut self, ground: &Ground) -> anyhow::Result<Vec<String>> {
        let links: Vec<String> = (ground.links.iter())
            .map(|(name, addresses)| format!("{name} ({addresses})"))
            .collect();
        let links = if links.is_empty() {
            "none at the moment".to_owned()
        } else {
            links.join("; ")
        };
        let question = format!(
            "Which links are metered, to be used only while no other works? There are: {links}. \
             Empty: none"
        );
        self.ask(&question, "--metered NAME or --no-metered", |text| {
            let names = text.split([' ', ',']).filter(|name| !name.is_empty());
            let is_known = |name: &str| ground.links.iter().any(|(link, _)| link == name);
            names
                .map(|name| {
                    if is_known(name) {
                        Ok(name.to_owned())
                    } else {
                        Err(format!("no link is called {name}"))
                    }
                })
                .collect()
        })
    }

    fn advertise(&mut self) -> anyhow::Result<Vec<HostPort>> {
        let question = "This machine has only private addresses. What is its public address or name, \
                        for invites? Empty: use the private addresses";
        self.ask(question, "--advertise", |text| {
            let names = text.split([' ', ',']).filter(|name| !name.is_empty());
            names
                .map(|name| name.parse::<HostPort>().map_err(|error| error.to_string()))
                .collect()
        })
    }

    fn whose(&mut self, ground: &Ground) -> anyhow::Result<Whose> {
        let mut choices = vec![("programs that you point at the proxy port", Whose::Proxy)];
        if ground.desktop.is_some() {
            choices.push((
                "programs that follow this desktop's proxy settings",
                Whose::Desktop,
            ));
        }
        if ground.is_root {
            choices.push(("all programs of this machine", Whose::System));
        }
        if let [(_, only)] = choices[..] {
            return Ok(only);
        }
        let listed: Vec<String> = (choices.iter().zip(1..))
            .map(|((what, _), number)| format!("{number}: {what}"))
            .collect();
        let question = format!(
            "Whose connections use all links? {}. Empty: 1",
            listed.join("; ")
        );
        self.ask(&question, "--capture", |text| {
            let number = match text {
                "" => Ok(1),
                text => text.parse::<usize>(),
            };
            let chosen = number.ok().and_then(|it| choices.get(it.checked_sub(1)?));
            chosen
                .map(|(_, whose)| *whose)
                .ok_or_else(|| format!("enter a number from 1 to {}", choices.len()))
        })
    }

    fn boot(&mut self, ground: &Ground) -> anyhow::Result<bool> {
        if !ground.runs_systemd {
            return Ok(false);
        }
        let when = if ground.is_root {
            "whenever the machine starts"
        } else {
            "whenever you log in"
        };
        let question = format!("Start now, and {when}? yes or no. Empty: yes");
        self.ask(&question, "--boot", |text| match text {
            "" | "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("enter yes or no".to_owned()),
        })
    }

    /// Asks until the answer is valid. An empty line stands for the default.
    fn ask<T>(
        &mut self,
        question: &str,
        flag: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        if self.takes_usual {
            return read("").map_err(|problem| Usage(problem).into());
        }
        if !io::stdin().is_terminal() {
            let problem = format!(
                "there is no terminal to ask at: answer with {flag}, or accept all defaults with \
                 --yes"
            );
            return Err(Usage(problem).into());
        }
        self.number += 1;
        let mut out = io::stdout();
        writeln!(out, "{}. {question}", self.number)?;
        loop {
            write!(out, "   > ")?;
            out.flush()?;
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                return Err(
                    Usage("setup ended before all questions were answered".to_owned()).into(),
                );
            }
            match read(line.trim()) {
                Ok(answer) => return Ok(answer),
                Err(problem) => writeln!(out, "   {problem}")?,
            }
        }
    }
}

const CLIENT: &str = "hawser-up.service";
const GATEWAY: &str = "hawser-serve.service";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn ground() -> Ground {
        Ground {
            is_root: true,
            is_usual_state: true,
            is_config_named: false,
            is_capture_configured: false,
            is_enrolled: false,
            links: vec![
                ("dsl".into(), "192.0.2.1".into()),
                ("lte".into(), "192.0.2.2".into()),
            ],
            is_private: false,
            desktop: None,
            systemd: Systemd { of_user: false },
            runs_systemd: false,
        }
    }

    fn answers(ground: &Ground, flags: &str) -> anyhow::Result<Answers> {
        let words = ["hawser", "setup"].into_iter().chain(flags.split(' '));
        let Command::Setup(args) = Cli::try_parse_from(words)?.command else {
            panic!("another command");
        };
        let answers = Answers::find(&args, ground)?;
        ground.check(&answers)?;
        Ok(answers)
    }

    #[test]
    fn what_flags_do_not_say_is_as_usual() {
        let found = answers(&ground(), "--yes").unwrap();
        let usual = Answers {
            role: Role::Client {
                gateway: None,
                metered: Vec::new(),
            },
            is_captured: false,
            desktop: false,
            boot: false,
        };
        assert_eq!(found, usual);
        let found = answers(&ground(), "--yes --metered lte --capture system").unwrap();
        let Role::Client { metered, .. } = &found.role else {
            panic!("{found:?}");
        };
        assert_eq!(
            (metered.as_slice(), found.is_captured),
            (&["lte".to_owned()][..], true)
        );
        let found = answers(&ground(), "--yes --serve --advertise gw.example").unwrap();
        assert_eq!(found.unit(), "hawser-serve.service");
    }

    #[test]
    fn what_can_not_be_done_is_refused_at_once() {
        let refused =
            |ground: &Ground, flags: &str| answers(ground, flags).unwrap_err().to_string();
        let user = Ground {
            is_root: false,
            ..ground()
        };
        assert!(refused(&user, "--yes --capture system").contains("needs root"));
        assert!(refused(&user, "--yes --capture desktop").contains("no desktop"));
        assert!(refused(&ground(), "--yes --capture desktop").contains("without sudo"));
        assert!(refused(&ground(), "--yes --boot yes").contains("systemd does not run"));
        assert!(refused(&ground(), "--yes --gateway hawser://x").contains("--gateway"));
        assert!(refused(&ground(), "--serve --metered lte").contains("cannot be used"));
        assert!(refused(&ground(), "--yes --undo").contains("cannot be used"));
    }
}
