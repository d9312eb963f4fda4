//! Documents as XML.

use std::fmt;

use super::{NAMESPACE, RegInfo, RegisteredAddress, RegisteredContact};

impl fmt::Display for RegInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_full { "full" } else { "partial" };
        let version = self.version;
        writeln!(f, "<?xml version=\"1.0\"?>")?;
        writeln!(
            f,
            "<reginfo xmlns=\"{NAMESPACE}\" version=\"{version}\" state=\"{state}\">"
        )?;
        for registration in &self.registrations {
            registration.fmt(f)?;
        }
        writeln!(f, "</reginfo>")
    }
}

impl fmt::Display for RegisteredAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_active = self.contacts.iter().any(|contact| contact.is_active);
        let state = if is_active { "active" } else { "terminated" };
        let (address, id) = (Escaped(&self.address), Escaped(&self.id));
        writeln!(
            f,
            "  <registration aor=\"{address}\" id=\"{id}\" state=\"{state}\">"
        )?;
        for contact in &self.contacts {
            contact.fmt(f)?;
        }
        writeln!(f, "  </registration>")
    }
}

impl fmt::Display for RegisteredContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_active {
            "active"
        } else {
            "terminated"
        };
        let (id, event) = (Escaped(&self.id), Escaped(&self.event));
        write!(
            f,
            "    <contact id=\"{id}\" state=\"{state}\" event=\"{event}\""
        )?;
        if let Some(expires) = self.expires {
            write!(f, " expires=\"{expires}\"")?;
        }
        if let Some(q) = self.q {
            write!(f, " q=\"{q}\"")?;
        }
        let uri = self.uri.to_string();
        writeln!(f, "><uri>{}</uri></contact>", Escaped(&uri))
    }
}

/// Text with XML markup escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                // XML 1.0 can't represent these characters.
                other if other.is_control() => f.write_str("\u{fffd}")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}
