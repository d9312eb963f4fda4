use crate::proxy::parse::Malformed;

/// The fields of a header block, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    value: Vec<u8>,
}

impl Fields {
    pub(super) fn new(headers: &[httparse::Header<'_>]) -> Self {
        let fields = headers
            .iter()
            .map(|header| Field {
                name: header.name.to_owned(),
                // A folded line becomes one line (RFC 9112 §5.2).
                value: header
                    .value
                    .iter()
                    .map(|&byte| match byte {
                        b'\r' | b'\n' => b' ',
                        byte => byte,
                    })
                    .collect(),
            })
            .collect();
        Self { fields }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// Returns the elements of a list field over all its lines, in lower case, without empty ones.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(|element| String::from_utf8_lossy(element).trim().to_ascii_lowercase())
            .filter(|element| !element.is_empty())
            .collect()
    }

    /// Returns the options in `Connection` and in its old variant `Proxy-Connection`.
    pub(super) fn connection_options(&self) -> Vec<String> {
        let mut options = self.list("connection");
        options.extend(self.list("proxy-connection"));
        options
    }

    /// Returns the length in `Content-Length`; the same value several times is one value.
    pub(super) fn content_length(&self) -> Result<Option<u64>, Malformed> {
        if !self.has("content-length") {
            return Ok(None);
        }
        let lengths = self.list("content-length");
        let (first, others) = lengths.split_first().ok_or(Malformed::Length)?;
        if others.iter().any(|other| other != first)
            || !first.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(Malformed::Length);
        }
        first.parse().map(Some).map_err(|_| Malformed::Length)
    }

    /// True if the message is chunked. Other transfer codings would have to be offered by `TE`,
    /// which this proxy never forwards.
    pub(super) fn is_chunked(&self) -> Result<bool, Malformed> {
        if !self.has("transfer-encoding") {
            return Ok(false);
        }
        match self.list("transfer-encoding").as_slice() {
            [coding] if coding == "chunked" => Ok(true),
            _ => Err(Malformed::TransferCoding),
        }
    }

    /// Returns the protocols in `Upgrade`, if `Connection` allows an upgrade.
    pub(super) fn upgrade(&self, connection_options: &[String]) -> Option<Vec<u8>> {
        let wanted = connection_options.iter().any(|option| option == "upgrade");
        let protocols = self.values("upgrade").collect::<Vec<_>>().join(&b", "[..]);
        (wanted && !protocols.is_empty()).then_some(protocols)
    }

    /// Appends all fields but those that concern one connection only (RFC 9110 §7.6.1) and those in
    /// `replaced`.
    pub(super) fn write_end_to_end(
        &self,
        out: &mut Vec<u8>,
        connection_options: &[String],
        replaced: &[&str],
    ) {
        let is_hop_by_hop = |name: &str| {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            HOP_BY_HOP.iter().any(|other| is(other))
                || replaced.iter().any(|other| is(other))
                || connection_options.iter().any(|other| is(other))
        };
        for field in &self.fields {
            if !is_hop_by_hop(&field.name) {
                write_field(out, &field.name, &field.value);
            }
        }
    }

    /// Returns the values of all fields called `name`.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value.as_slice())
    }
}

pub(super) fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The most fields in a header block.
pub(super) const MAX_FIELDS: usize = 256;

/// `Content-Length` is in this list because the length of a forwarded message is written anew.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "proxy-authenticate",
    "proxy-authorization",
    "content-length",
];
