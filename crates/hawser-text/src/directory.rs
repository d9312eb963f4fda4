//! The part of `hawser status` about a directory.

use crate::figures::{left_out, span};
use crate::table::{Side, Table, clip, printable};
use hawser_control::{DirectoryStatus, RegistrationStatus};

/// Returns the directory's state, in lines of at most `width` columns.
pub(super) fn directory(status: &DirectoryStatus, width: usize) -> Vec<String> {
    let at: Vec<_> = status.listen.iter().map(ToString::to_string).collect();
    let tls = status
        .tls_listen
        .iter()
        .map(|address| format!("{address} (TLS)"));
    let at: Vec<_> = at.into_iter().chain(tls).collect();
    let title = format!(
        "DIRECTORY of {} at {}",
        status.domains.join(" "),
        at.join(" ")
    );
    let counted = format!(
        "  {} of {} users at {} contacts, connections open: {}",
        status.address_count, status.user_count, status.binding_count, status.connection_count
    );
    let mut lines = vec![clip(&printable(&title), width), clip(&counted, width)];
    let mut table = Table::new([
        ("USER", Side::Left),
        ("CONTACT", Side::Flexible),
        ("SHARE", Side::Right),
        ("LEFT", Side::Right),
    ]);
    let shown = status.bindings.iter().take(BINDINGS_SHOWN);
    let count = shown.len();
    for binding in shown {
        table.push([
            printable(&binding.address),
            printable(&binding.contact),
            format!(
                "{}.{:03}",
                binding.preference / 1000,
                binding.preference % 1000
            ),
            span(binding.left),
        ]);
    }
    if count > 0 {
        lines.extend(table.lines(2, width));
    }
    lines.extend(left_out(status.binding_count, count, "contacts"));
    lines
}

/// Returns whether other hosts can find this host by its name, or the reason why not.
pub fn registration_line(status: &RegistrationStatus) -> String {
    let (name, directory) = (&status.name, &status.directory);
    let text = match (status.is_registered, &status.reason) {
        (true, None) => {
            let contacts = status.contacts.iter();
            let contacts: Vec<_> = contacts.map(|it| it.contact.as_str()).collect();
            format!(
                "{name} is registered with {directory}: {}",
                contacts.join(" ")
            )
        }
        (true, Some(reason)) => format!("{name} is registered with {directory} still: {reason}"),
        (false, Some(reason)) => format!("{name} is not registered with {directory}: {reason}"),
        (false, None) => format!("{name} is not registered with {directory} yet"),
    };
    printable(&text)
}

const BINDINGS_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hawser_control::BindingStatus;

    #[test]
    fn users_are_shown_with_their_contacts_and_the_rest_is_counted() {
        let binding = BindingStatus {
            address: "sip:alice@example.org".to_owned(),
            contact: "sip:alice@192.0.2.1:5070".to_owned(),
            preference: 700,
            left: Duration::from_secs(600),
            age: Duration::from_secs(3),
        };
        let status = DirectoryStatus {
            domains: vec!["example.org".to_owned()],
            listen: vec![([192, 0, 2, 9], 5060).into()],
            tls_listen: vec![([192, 0, 2, 9], 5061).into()],
            user_count: 5,
            address_count: 2,
            binding_count: 3,
            connection_count: 1,
            bindings: vec![binding],
        };
        let expected = "\
DIRECTORY of example.org at 192.0.2.9:5060 192.0.2.9:5061 (TLS)
  2 of 5 users at 3 contacts, connections open: 1
  USER                   CONTACT                   SHARE     LEFT
  sip:alice@example.org  sip:alice@192.0.2.1:5070  0.700  10m 00s
  and 2 more contacts";
        let shown = directory(&status, 80).join("\n");
        assert_eq!(shown, expected, "\n{shown}");
    }
}
