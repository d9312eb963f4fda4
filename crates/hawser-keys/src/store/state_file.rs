//! The files of a state directory.

use std::path::Path;

/// A file of a state directory. Every file that this program leaves there is in [`ALL`](Self::ALL)
/// or ends in `.lock`, `.sock` or [`ASIDE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateFile {
    /// This machine's private key.
    Key,
    /// A gateway's clients and invites.
    Gateway,
    /// The addresses in a gateway's invites.
    Addresses,
    /// The inner addresses of a gateway's clients.
    PacketAddresses,
    /// The gateways and peers that this machine has enrolled with.
    Client,
    /// The keys that peers of the library proved at first contact.
    KnownKeys,
    /// The hosts that are known by name.
    Names,
    /// The version numbers of the newest descriptions of hosts that are known by name.
    Order,
    /// The pinned keys of discovered servers.
    Servers,
    /// The secret from which this host's keys for discovered servers are derived.
    ServersSecret,
    /// Vouchers of servers' owners.
    Vouchers,
    /// The bindings of a directory.
    Directory,
    /// The key with which the directory seals the routes of calls.
    DirectoryKey,
    /// The token of the dashboard.
    WebToken,
    /// The usage database.
    Usage,
    /// Rules for connections that `hawser rule` has written.
    Rules,
    /// The changes that `hawser setup` has made.
    Setup,
}

/// The reaction of a program to a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDamaged {
    /// The program ends with a one-line error: only the user may decide to lose the file's content.
    Refused,
    /// The program renames the file by appending [`ASIDE`], logs that, and begins a new file.
    SetAside,
    /// The program writes the file anew.
    Rewritten,
}

impl StateFile {
    /// All files.
    pub const ALL: [Self; 17] = [
        Self::Key,
        Self::Gateway,
        Self::Addresses,
        Self::PacketAddresses,
        Self::Client,
        Self::KnownKeys,
        Self::Names,
        Self::Order,
        Self::Servers,
        Self::ServersSecret,
        Self::Vouchers,
        Self::Directory,
        Self::DirectoryKey,
        Self::WebToken,
        Self::Usage,
        Self::Rules,
        Self::Setup,
    ];

    /// Returns the name of the file in the state directory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Gateway => "gateway.json",
            Self::Addresses => "addresses.json",
            Self::PacketAddresses => "packet-addresses.json",
            Self::Client => "client.json",
            Self::KnownKeys => "known-keys",
            Self::Names => "names.json",
            Self::Order => "order.json",
            Self::Servers => "servers.json",
            Self::ServersSecret => "servers-secret",
            Self::Vouchers => "vouchers.json",
            Self::Directory => "directory.db",
            Self::DirectoryKey => "directory-key",
            Self::WebToken => "web-token",
            Self::Usage => "ledger.db",
            Self::Rules => "rules.toml",
            Self::Setup => "setup.json",
        }
    }

    /// Returns the reaction of a program to a damaged file.
    pub const fn when_damaged(self) -> WhenDamaged {
        match self {
            Self::Order | Self::Servers | Self::Vouchers | Self::Directory | Self::Usage => {
                WhenDamaged::SetAside
            }
            Self::Addresses => WhenDamaged::Rewritten,
            _ => WhenDamaged::Refused,
        }
    }

    /// Returns the consequence of a missing file, as the end of a sentence.
    pub const fn without_it(self) -> &'static str {
        match self {
            Self::Key => "clients must enrol anew",
            Self::Gateway => "all clients must enrol anew",
            Self::Addresses => "the file is written again at the next start",
            Self::PacketAddresses => "clients may get other inner addresses",
            Self::Client => "this machine must enrol anew",
            Self::KnownKeys => "the next key of each peer is taken on trust",
            Self::Names => "the known hosts have to be added again",
            Self::Order => "old descriptions of hosts may be believed once more",
            Self::Servers => "the next key of each server is taken on trust",
            Self::ServersSecret => "servers take this machine for another one",
            Self::Vouchers => "vouchers are fetched again",
            Self::Directory => "hosts register again within the hour",
            Self::DirectoryKey => "no request follows within calls in progress",
            Self::WebToken => "programs with the old token need the new one",
            Self::Usage => "allowances begin at zero",
            Self::Rules => "the rules in the file are gone",
            Self::Setup => "`hawser setup --undo` can't take anything back",
        }
    }

    /// Returns the state file at this path.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let name = path.file_name()?;
        Self::ALL.into_iter().find(|file| name == file.name())
    }
}

/// Suffix of a damaged file that was set aside. There is at most one for each file: the file
/// that is set aside later overwrites the earlier one.
pub const ASIDE: &str = ".damaged";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_lists_every_file_and_what_becomes_of_a_damaged_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        for file in StateFile::ALL {
            let name = format!("| `{}`", file.name());
            let row = rows.iter().find(|row| row.starts_with(&name));
            let row = row.unwrap_or_else(|| panic!("{name} has no row"));
            let outcome = match file.when_damaged() {
                WhenDamaged::Refused => "| refused |",
                WhenDamaged::SetAside => "| set aside |",
                WhenDamaged::Rewritten => "| rewritten |",
            };
            assert!(row.ends_with(outcome), "{row}");
        }
    }
}
