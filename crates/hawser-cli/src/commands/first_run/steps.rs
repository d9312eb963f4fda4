//! The steps of `hawser setup`, and how each of them is undone.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use hawser_config::{GatewaySource, HostPort};
use hawser_control::LinkChange;
use hawser_keys::identity::PublicKey;
use hawser_keys::store::ClientStore;
use hawser_types::LinkUse;
use toml_edit::Array;

use super::desktop::{self, Desktop};
use super::questions::{Answers, Role};
use super::record::{Record, Step};
use super::systemd::Systemd;
use hawser_daemon::proxy::links::Links;
use hawser_daemon::proxy::rules::{CheckedChange, LinkRuleStore};
use hawser_daemon::proxy::saved;
use hawser_daemon::proxy::session::END_PATIENCE;
use hawser_daemon::proxy::session::Target;
use hawser_daemon::setup::{Setup, show};
use hawser_daemon::toml_file::{self, PutBack};

/// The steps of one run.
pub(super) struct Steps<'a> {
    pub(super) setup: &'a Setup,
    pub(super) record: &'a mut Record,
    /// Messages to the user about what was done.
    pub(super) lines: Vec<String>,
}

impl Steps<'_> {
    /// Enrols with the gateway of an invite, and ends the session again.
    pub(super) async fn enrol(
        &mut self,
        source: &GatewaySource,
        links: Links,
    ) -> anyhow::Result<()> {
        let setup = self.setup;
        let rules = LinkRuleStore::open(&setup.config, &setup.state);
        let wanted = &setup.config.up.links;
        let target = Target::find(setup, &setup.state, Some(source), wanted, &rules)?;
        let target = target.context("the invite names no gateway")?;
        let key = target.config.gateway.to_string();
        if !target.known {
            self.record.add(Step::Gateway { key: key.clone() })?;
        }
        show("Enrolling with the gateway …\n")?;
        let client = target.connect(&setup.state, links).await?;
        client.close(END_PATIENCE).await;
        self.lines
            .push(format!("the gateway {key} knows this machine"));
        Ok(())
    }

    /// Writes the settings for the answers into the configuration.
    pub(super) fn configure(&mut self, answers: &Answers) -> anyhow::Result<()> {
        let wanted = Settings::of(answers);
        if wanted == Settings::default() {
            return Ok(());
        }
        let file = &self.setup.config_file;
        let path = file.path();
        let before = toml_file::text(path)?;
        let after = wanted.added_to(before.as_deref().unwrap_or_default())?;
        if before.as_ref() == Some(&after) {
            return Ok(());
        }
        self.record.add(Step::Config {
            file: path.to_path_buf(),
            before,
            after,
        })?;
        file.begin()?;
        wanted.write(path)?;
        let shown = path.display();
        let lines = wanted.lines().into_iter();
        self.lines
            .extend(lines.map(|line| format!("{shown}: {line}")));
        Ok(())
    }

    /// Makes the service manager start the service, now and at boot.
    pub(super) fn start_at_boot(&mut self, answers: &Answers) -> anyhow::Result<()> {
        let of_user = !rustix::process::geteuid().is_root();
        let systemd = Systemd { of_user };
        let unit = answers.unit();
        let folder = systemd.folder()?;
        let program = std::env::current_exe().context("can't find this program's file")?;
        let program = program.display().to_string();
        if program.contains(char::is_whitespace) {
            bail!("{program}: a service's program can't have a space in its path");
        }
        let ours = |text: &str| text.replace("/usr/bin/hawser", &program);
        if of_user {
            self.put(&folder.join(unit), &ours(USER_UNIT), of_user)?;
        }
        let captures = folder.join("hawser-up.service.d/capture.conf");
        if answers.is_captured {
            self.put(&captures, &ours(CAPTURE), of_user)?;
        } else if !of_user && captures.exists() {
            self.lines.push(format!(
                "{} is there: all programs stay captured",
                captures.display()
            ));
        }
        if systemd.is_enabled(unit) {
            // The unit was enabled before, so undo does not disable it.
            self.restart(systemd, unit)?;
            self.lines
                .push(format!("{unit} runs with the new settings"));
            return Ok(());
        }
        self.record.add(Step::Boot {
            unit: unit.to_owned(),
            of_user,
        })?;
        systemd.run(&["daemon-reload"])?;
        systemd.run(&["enable", unit])?;
        self.restart(systemd, unit)?;
        self.lines
            .push(format!("{unit} runs, and starts by itself from now on"));
        Ok(())
    }

    fn restart(&self, systemd: Systemd, unit: &str) -> anyhow::Result<()> {
        systemd.run(&["daemon-reload"])?;
        // `systemctl restart` returns when the port is open.
        if systemd.run(&["restart", unit]).is_err() {
            bail!("{unit} does not start: {}", systemd.last_words(unit));
        }
        Ok(())
    }

    /// Creates a file for the service manager; fails if the file exists with another text.
    fn put(&mut self, file: &Path, text: &str, of_user: bool) -> anyhow::Result<()> {
        match fs::read_to_string(file) {
            Ok(there) if there == text => return Ok(()),
            // An earlier version of Hawser created the file.
            Ok(there) if self.record.has_made(file, &there) => {}
            Ok(_) => bail!(
                "{} is there already, and says something else",
                file.display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        }
        self.record.add(Step::Unit {
            file: file.to_path_buf(),
            text: text.to_owned(),
            of_user,
        })?;
        let write = || -> io::Result<()> {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(file, text)
        };
        write().with_context(|| format!("can't write {}", file.display()))
    }

    /// Tells how to start Hawser without a service.
    pub(super) fn say_how_to_start(&mut self, answers: &Answers) {
        let command = match answers.role {
            Role::Client { .. } => "hawser up",
            Role::Gateway { .. } => "hawser serve",
        };
        self.lines
            .push(format!("nothing was started: `{command}` starts it"));
    }

    /// Sets the desktop's proxy.
    pub(super) fn tell_desktop(&mut self) -> anyhow::Result<()> {
        let desktop = Desktop::find().context("no desktop is found any more")?;
        self.record.add(Step::Desktop {
            before: desktop.now()?,
        })?;
        desktop::run(&desktop.commands(self.setup.config.up.listen.port()))?;
        self.lines
            .push("the desktop's programs use the proxy port".to_owned());
        Ok(())
    }
}

/// Settings to write into the configuration.
#[derive(Default, PartialEq, Eq)]
struct Settings<'a> {
    metered: &'a [String],
    advertise: &'a [HostPort],
    /// `capture` is written, for `hawser up` without a service. A service gets `capture`, and the
    /// permissions for it, from a drop-in.
    captures: bool,
}

impl<'a> Settings<'a> {
    fn of(answers: &'a Answers) -> Self {
        let (metered, advertise): (&[String], &[HostPort]) = match &answers.role {
            Role::Client { metered, .. } => (metered, &[]),
            Role::Gateway { advertise } => (&[], advertise),
        };
        Self {
            metered,
            advertise,
            captures: answers.is_captured && !answers.boot,
        }
    }

    /// Returns the text of a configuration with these settings added, without writing it.
    fn added_to(&self, text: &str) -> anyhow::Result<String> {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("hawser.toml");
        fs::write(&copy, text)?;
        self.write(&copy)?;
        Ok(fs::read_to_string(&copy)?)
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        for name in self.metered {
            let change = CheckedChange::read(&LinkChange {
                name: name.clone(),
                up: Some(LinkUse::Backup),
                down: Some(LinkUse::Backup),
                price: Some(PRICE.to_owned()),
                ..LinkChange::default()
            });
            let change = change.with_context(|| format!("{name} can't be metered"))?;
            saved::set_link(path, &change)?;
        }
        if self.captures {
            saved::set(path, "up", "capture", "system")?;
        }
        if !self.advertise.is_empty() {
            let addresses = self.advertise.iter().map(ToString::to_string);
            saved::set(path, "serve", "advertise", addresses.collect::<Array>())?;
        }
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let metered = self.metered.iter();
        let mut lines: Vec<String> = metered
            .map(|name| format!("{name} is used only while no other link works"))
            .collect();
        if self.captures {
            lines.push("`hawser up` captures all programs".to_owned());
        }
        if !self.advertise.is_empty() {
            lines.push("invites lead to the public address".to_owned());
        }
        lines
    }
}

/// Undoes a step; returns a message about it.
pub(super) fn take_back(setup: &Setup, step: &Step) -> anyhow::Result<String> {
    match step {
        Step::Boot { unit, of_user } => {
            let systemd = Systemd { of_user: *of_user };
            if !systemd.has(unit) {
                return Ok(format!("{unit} is gone already"));
            }
            systemd.run(&["disable", "--now", unit])?;
            Ok(format!("{unit} is stopped, and no longer starts by itself"))
        }
        Step::Unit {
            file,
            text,
            of_user,
        } => {
            match fs::read_to_string(file) {
                Ok(there) if there == *text => fs::remove_file(file)?,
                Ok(_) => return Ok(format!("{} was changed since, and stays", file.display())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| file.display().to_string()),
            }
            // The folder stays if it contains files of others.
            if let Some(folder) = file.parent()
                && folder.extension().is_some_and(|it| it == "d")
            {
                let _ = fs::remove_dir(folder);
            }
            Systemd { of_user: *of_user }.run(&["daemon-reload"])?;
            Ok(format!("{} is removed", file.display()))
        }
        Step::Config {
            file,
            before,
            after,
        } => restore(file, before.as_deref(), after),
        Step::Desktop { before } => {
            desktop::run(before)?;
            Ok("the desktop's proxy settings are as before".to_owned())
        }
        Step::Gateway { key } => {
            let known: PublicKey = key.parse().context("the gateway's key")?;
            ClientStore::open(&setup.state)?.forget(&known)?;
            Ok(format!(
                "the gateway {key} is forgotten here; `hawser peers revoke` there strikes this \
                 machine off its list"
            ))
        }
    }
}

/// Restores the text of the configuration, unless it was changed since.
fn restore(file: &Path, before: Option<&str>, after: &str) -> anyhow::Result<String> {
    let shown = file.display();
    Ok(match toml_file::put_back(file, after, before)? {
        PutBack::Done => format!("{shown} is as before"),
        PutBack::Gone => format!("{shown} is gone already"),
        PutBack::Changed => {
            format!("{shown} was changed since, and stays as it is: take out what is not wanted")
        }
    })
}

/// Price that makes metered links more expensive than the others, which are free.
const PRICE: &str = "1EUR/GB";
const CAPTURE: &str =
    include_str!("../../../../../contrib/systemd/hawser-up.service.d/capture.conf");
const USER_UNIT: &str = include_str!("../../../../../contrib/systemd/user/hawser-up.service");
