//! The proxy settings of GNOME (and desktops that share its settings) and KDE.

use std::env;
use std::process::Command;

use anyhow::{Context as _, bail};

/// A desktop whose settings can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Desktop {
    /// GNOME, changed by `gsettings`.
    Gnome,
    /// KDE, changed by `kwriteconfig`, version 5 or 6.
    Kde(&'static str),
}

impl Desktop {
    /// Returns the user's current desktop, if there is one.
    pub(super) fn find() -> Option<Self> {
        let name = env::var("XDG_CURRENT_DESKTOP").unwrap_or_default();
        let is = |it: &str| name.split(':').any(|part| part.eq_ignore_ascii_case(it));
        if is("KDE") {
            let tools = ["kwriteconfig6", "kwriteconfig5"];
            return tools.into_iter().find(|tool| is_there(tool)).map(Self::Kde);
        }
        let gnome = ["GNOME", "Unity", "X-Cinnamon", "Budgie", "MATE", "XFCE"];
        (gnome.into_iter().any(is) && is_there("gsettings")).then_some(Self::Gnome)
    }

    /// Returns the commands that make programs use the SOCKS proxy at this port of the machine.
    pub(super) fn commands(self, port: u16) -> Vec<Vec<String>> {
        let port = port.to_string();
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        match self {
            Self::Gnome => vec![
                words(&["gsettings", "set", SOCKS, "host", "127.0.0.1"]),
                words(&["gsettings", "set", SOCKS, "port", &port]),
                words(&["gsettings", "set", PROXY, "mode", "manual"]),
            ],
            Self::Kde(tool) => vec![
                kde(tool, "socksProxy", &format!("socks://127.0.0.1:{port}")),
                kde(tool, "ProxyType", "1"),
            ],
        }
    }

    /// Returns the commands that restore the current settings.
    pub(super) fn now(self) -> anyhow::Result<Vec<Vec<String>>> {
        match self {
            Self::Gnome => [(PROXY, "mode"), (SOCKS, "host"), (SOCKS, "port")]
                .into_iter()
                .map(|(schema, key)| {
                    let value = said("gsettings", &["get", schema, key])?;
                    let words = ["gsettings", "set", schema, key, &value];
                    Ok(words.map(str::to_owned).to_vec())
                })
                .collect(),
            Self::Kde(tool) => {
                let read = tool.replace("write", "read");
                let of = |key| {
                    said(
                        &read,
                        &["--file", KDE_FILE, "--group", KDE_GROUP, "--key", key],
                    )
                };
                Ok(vec![
                    match of("ProxyType")?.as_str() {
                        "" => kde(tool, "ProxyType", "0"),
                        set => kde(tool, "ProxyType", set),
                    },
                    kde(tool, "socksProxy", &of("socksProxy")?),
                ])
            }
        }
    }
}

/// Runs the commands.
pub(super) fn run(commands: &[Vec<String>]) -> anyhow::Result<()> {
    for command in commands {
        if let Some((program, arguments)) = command.split_first() {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            said(program, &arguments)?;
        }
    }
    Ok(())
}

fn kde(tool: &str, key: &str, value: &str) -> Vec<String> {
    let words = [
        tool, "--file", KDE_FILE, "--group", KDE_GROUP, "--key", key, value,
    ];
    words.map(str::to_owned).to_vec()
}

fn said(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("can't run {program}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}", arguments.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

const PROXY: &str = "org.gnome.system.proxy";
const SOCKS: &str = "org.gnome.system.proxy.socks";
const KDE_FILE: &str = "kioslaverc";
const KDE_GROUP: &str = "Proxy Settings";
