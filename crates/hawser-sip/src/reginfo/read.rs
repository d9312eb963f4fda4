//! Parsing of documents from XML.

use roxmltree::{Document, Node, ParsingOptions};

use super::{
    MAX_CONTACTS, MAX_DOCUMENT, NAMESPACE, RegInfo, RegInfoFault, RegisteredAddress,
    RegisteredContact,
};
use crate::fields::{Field as _, Q};

impl RegInfo {
    /// Parses a document. Unknown elements and attributes are ignored, as RFC 3680 §5 demands.
    ///
    /// # Errors
    /// See [`RegInfoFault`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RegInfoFault> {
        if bytes.len() > MAX_DOCUMENT {
            return Err(RegInfoFault::TooLong(bytes.len()));
        }
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| RegInfoFault::Xml("no UTF-8".to_owned()))?;
        let options = ParsingOptions {
            allow_dtd: false,
            nodes_limit: MAX_NODES,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(text, options);
        let document = document.map_err(|fault| RegInfoFault::Xml(fault.to_string()))?;
        let root = document.root_element();
        if !is(&root, "reginfo") {
            return Err(RegInfoFault::Value("the element reginfo"));
        }
        let is_full = match root.attribute("state") {
            Some("full") => true,
            Some("partial") => false,
            _ => return Err(RegInfoFault::Value("state of reginfo")),
        };
        let registrations = children(&root, "registration").map(registration);
        Ok(Self {
            version: number(&root, "version")?.ok_or(RegInfoFault::Value("version of reginfo"))?,
            is_full,
            registrations: registrations.collect::<Result<_, _>>()?,
        })
    }
}

fn registration(node: Node<'_, '_>) -> Result<RegisteredAddress, RegInfoFault> {
    let contacts: Vec<_> = children(&node, "contact").collect();
    if contacts.len() > MAX_CONTACTS {
        return Err(RegInfoFault::Value("a list of 64 contacts at most"));
    }
    Ok(RegisteredAddress {
        address: text(&node, "aor", "aor of a registration")?,
        id: text(&node, "id", "id of a registration")?,
        contacts: contacts
            .into_iter()
            .map(contact)
            .collect::<Result<_, _>>()?,
    })
}

fn contact(node: Node<'_, '_>) -> Result<RegisteredContact, RegInfoFault> {
    let uri = children(&node, "uri").next().and_then(|uri| uri.text());
    let uri = uri.ok_or(RegInfoFault::Value("uri of a contact"))?;
    let q = node.attribute("q").map(Q::parse).transpose()?;
    Ok(RegisteredContact {
        id: text(&node, "id", "id of a contact")?,
        uri: uri.trim().parse()?,
        is_active: match node.attribute("state") {
            Some("active") => true,
            Some("terminated") => false,
            _ => return Err(RegInfoFault::Value("state of a contact")),
        },
        event: text(&node, "event", "event of a contact")?,
        q,
        expires: number(&node, "expires")?,
    })
}

fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.has_tag_name((NAMESPACE, name))
}

fn children<'a, 'i>(node: &Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| is(child, name))
}

fn text(node: &Node<'_, '_>, name: &str, what: &'static str) -> Result<String, RegInfoFault> {
    let value = node.attribute(name).ok_or(RegInfoFault::Value(what))?;
    Ok(value.to_owned())
}

fn number(node: &Node<'_, '_>, name: &'static str) -> Result<Option<u32>, RegInfoFault> {
    let Some(value) = node.attribute(name) else {
        return Ok(None);
    };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_number);
    number.map(Some).ok_or(RegInfoFault::Value(name))
}

/// Limit of elements, texts and attributes in one document.
const MAX_NODES: u32 = 4096;
