//! Sections of manual pages other than flags: examples, files and exit codes.

use clap_mangen::roff::{Roff, roman};

/// Returns the sections after the flags on the page of a command, which is named like `hawser-up`.
pub(super) fn after_flags(page: &str) -> Roff {
    let mut text = Roff::new();
    let examples = EXAMPLES.iter().filter(|(of, ..)| *of == page);
    list(
        &mut text,
        "EXAMPLES",
        examples.map(|(_, line, what)| (*line, *what)),
    );
    if page == "hawser" {
        list(&mut text, "FILES", FILES.into_iter());
        list(&mut text, "ENVIRONMENT", ENVIRONMENT.into_iter());
    }
    let own = EXIT_CODES.iter().filter(|(of, ..)| *of == page);
    let own = own.map(|(_, code, what)| (*code, *what));
    list(
        &mut text,
        "EXIT STATUS",
        EVERY_EXIT_CODE.into_iter().chain(own),
    );
    if page != "hawser" {
        text.control("SH", ["SEE ALSO"]);
        text.text([roman("hawser(1)")]);
    }
    text
}

/// Adds a section of words with their meanings, unless there are none.
fn list<'a>(text: &mut Roff, title: &str, lines: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    text.control("SH", [title]);
    for (word, what) in lines {
        text.control("TP", []);
        text.text([roman(word)]);
        text.text([roman(what)]);
    }
}

/// The page, a command line, and its purpose.
const EXAMPLES: [(&str, &str, &str); 34] = [
    (
        "hawser",
        "hawser up",
        "Open the proxy port 127.0.0.1:1080, and use all links.",
    ),
    (
        "hawser-setup",
        "hawser setup",
        "Ask at most four questions, and start the service.",
    ),
    (
        "hawser-setup",
        "hawser setup --gateway @invite --metered wwan0 --capture system --boot yes",
        "Ask nothing: enrol, keep wwan0 as a backup, and capture all programs.",
    ),
    (
        "hawser-setup",
        "hawser setup --undo boot",
        "Stop the service, and no longer start it at boot.",
    ),
    (
        "hawser",
        "hawser run -- apt-get upgrade",
        "Give one program all links.",
    ),
    (
        "hawser",
        "hawser status",
        "Show what the running daemon does.",
    ),
    (
        "hawser-up",
        "hawser up --gateway @invite",
        "Enrol with the gateway of an invite in a file, and use it from now on.",
    ),
    (
        "hawser-up",
        "hawser up --capture system",
        "Carry the connections of all programs, as root.",
    ),
    (
        "hawser-up",
        "hawser up --link wlan0 --link wwan0",
        "Use only these two links.",
    ),
    (
        "hawser-up",
        "hawser up --discover",
        "Look for Hawser on the servers that programs connect to.",
    ),
    (
        "hawser-serve",
        "hawser serve",
        "Run a gateway on TCP and UDP port 7443, and print an invite for the first client.",
    ),
    (
        "hawser-serve",
        "hawser serve --advertise gw.example",
        "Put this name into invites, for example because the machine's own addresses are private.",
    ),
    (
        "hawser-serve",
        "hawser serve --front 443,22",
        "Also let hosts that have not enrolled reach these services over all links.",
    ),
    (
        "hawser-serve",
        "hawser serve --packet-exit nat",
        "Also carry clients' packets: UDP, QUIC, pings.",
    ),
    (
        "hawser-invite",
        "hawser invite --ttl 30min",
        "Print an invite that is valid for half an hour.",
    ),
    (
        "hawser-invite",
        "hawser invite list",
        "List the invites, without their secrets.",
    ),
    (
        "hawser-run",
        "hawser run -- curl -O https://example.org/big.iso",
        "Download with all links.",
    ),
    (
        "hawser-run",
        "hawser run --tun -- firefox",
        "Carry all packets of a program over the gateway, QUIC too.",
    ),
    (
        "hawser-run",
        "hawser run --link wwan0 -- ssh example.org",
        "Keep a program on one link.",
    ),
    (
        "hawser-send",
        "hawser send film.mkv --to @invite",
        "Send a file to a machine that runs `hawser receive`.",
    ),
    (
        "hawser-send",
        "hawser send photos --to @invite",
        "Send a directory; again later, only what is new.",
    ),
    (
        "hawser-send",
        "hawser send - --name shop.sql --to @invite",
        "Send what a program writes, as in `pg_dump shop | hawser send …`.",
    ),
    (
        "hawser-receive",
        "hawser receive inbox",
        "Print an invite for the sender, and write files into this directory.",
    ),
    (
        "hawser-link",
        "hawser link wwan0 --use backup --price 2.5EUR/GB",
        "Keep a link as a backup for when the others fail.",
    ),
    (
        "hawser-link",
        "hawser link wwan0 --allowance 10GB --save",
        "Limit a link's monthly traffic, and save the limit.",
    ),
    (
        "hawser-policy",
        "hawser policy set --scheduler redundant",
        "Send everything over two links, for the shortest delay.",
    ),
    (
        "hawser-rule",
        "hawser rule add --program restic --never wwan0",
        "Keep backups off a link.",
    ),
    (
        "hawser-rule",
        "hawser rule test --program ssh --to example.org:22",
        "Show what the rules do with a connection.",
    ),
    ("hawser-why", "hawser why", "Explain which links were used."),
    (
        "hawser-events",
        "hawser events --follow --json",
        "Print each change as a line of JSON.",
    ),
    (
        "hawser-peers",
        "hawser peers add bob@example.org --trust-first",
        "Reach another machine by its name.",
    ),
    (
        "hawser-kill-switch",
        "hawser kill-switch off",
        "Let all programs use the links again.",
    ),
    (
        "hawser-voucher",
        "hawser voucher --ports 443,22",
        "Print the content of https://NAME/.well-known/hawser.",
    ),
    (
        "hawser-completions",
        "hawser completions bash",
        "Print the content of /usr/share/bash-completion/completions/hawser.",
    ),
];

const FILES: [(&str, &str); 5] = [
    (
        "~/.config/hawser/hawser.toml, /etc/hawser/hawser.toml",
        "The configuration of a user, and of root and the services. It need not exist.",
    ),
    (
        "~/.local/state/hawser, /var/lib/hawser",
        "The state directory of a user, and of root and the services: the private key, clients and gateways, the socket of the daemon. Keep it secret.",
    ),
    (
        "STATE/hawser.toml",
        "The configuration, where --state names another state directory.",
    ),
    (
        "STATE/rules.toml",
        "Rules that `hawser rule` has written where there is no configuration.",
    ),
    ("/etc/default/hawser", "Flags for the services."),
];

const ENVIRONMENT: [(&str, &str); 2] = [
    (
        "HAWSER_LOG",
        "Filter of the log if --log is not given, such as info,hawser_net=debug or \
         info,[client{id=ann}]=debug.",
    ),
    ("NO_COLOR", "If set, `hawser top` shows no colours."),
];

const EVERY_EXIT_CODE: [(&str, &str); 3] = [
    ("0", "It was done."),
    ("1", "It failed; a line on standard error says why."),
    (
        "2",
        "A mistake on the command line or in the configuration.",
    ),
];

/// The page, an exit code, and its meaning.
const EXIT_CODES: [(&str, &str, &str); 1] = [(
    "hawser-run",
    "others",
    "Those of the program, once it has begun; 128 and the number of the signal that ended it.",
)];

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn examples_are_ones_that_the_program_takes() {
        for (page, line, _) in EXAMPLES {
            let words: Vec<&str> = line.split(' ').collect();
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
            let command = page.strip_prefix("hawser-").unwrap_or(words[1]);
            assert_eq!(words[1], command, "{line}");
        }
    }
}
