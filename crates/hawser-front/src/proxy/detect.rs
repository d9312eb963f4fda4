use super::parse::Malformed;

/// The protocols that share the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 1928.
    Socks5,
    /// SOCKS4 and 4a.
    Socks4,
    /// HTTP/1, CONNECT or plain.
    Http,
}

impl Protocol {
    /// Recognises a protocol by the first byte of a connection: SOCKS begins with its version,
    /// HTTP with a method, which is a token (or with an empty line, which RFC 9112 §2.2 wants
    /// ignored).
    ///
    /// # Errors
    /// [`Malformed::UnknownProtocol`] for every other byte, TLS among them.
    pub const fn detect(first: u8) -> Result<Self, Malformed> {
        match first {
            5 => Ok(Self::Socks5),
            4 => Ok(Self::Socks4),
            b'A'..=b'Z' | b'a'..=b'z' | b'\r' | b'\n' => Ok(Self::Http),
            _ => Err(Malformed::UnknownProtocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_differ_in_their_first_byte() {
        assert_eq!(Protocol::detect(5), Ok(Protocol::Socks5));
        assert_eq!(Protocol::detect(4), Ok(Protocol::Socks4));
        assert_eq!(Protocol::detect(b'G'), Ok(Protocol::Http));
        // A TLS client hello, by mistake on the wrong port.
        assert_eq!(Protocol::detect(0x16), Err(Malformed::UnknownProtocol));
        assert_eq!(Protocol::detect(0), Err(Malformed::UnknownProtocol));
    }
}
