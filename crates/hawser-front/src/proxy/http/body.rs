use super::fields::write_field;
use crate::proxy::parse::Malformed;

/// How the body of a message is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// A body of this many bytes.
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// All bytes until the connection ends.
    UntilClose,
}

impl Framing {
    /// Appends the header field for this framing, if one is needed.
    pub(super) fn write_field(self, out: &mut Vec<u8>) {
        match self {
            Self::None | Self::UntilClose => {}
            Self::Length(length) => {
                write_field(out, "Content-Length", length.to_string().as_bytes());
            }
            Self::Chunked => write_field(out, "Transfer-Encoding", b"chunked"),
        }
    }
}

/// Follows a body through the bytes of its connection.
#[derive(Debug)]
pub struct Body {
    state: State,
}

/// A run of bytes at the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The body is complete; the bytes belong to the next message.
    End,
    /// This many bytes of content.
    Content(usize),
    /// This many bytes that delimit content.
    Delimiter(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    UntilClose,
    Length(u64),
    Chunk(Chunk),
}

/// Position of the next byte in the chunked coding (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Size { size: u64, digits: u8 },
    Extension { size: u64, length: u16 },
    SizeLineFeed { size: u64 },
    Content(u64),
    ContentReturn,
    ContentLineFeed,
    TrailerStart { length: u32 },
    Trailer { length: u32 },
    TrailerLineFeed { length: u32 },
    EndLineFeed,
}

impl Body {
    /// Starts at the first byte of a body.
    pub const fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunk(Chunk::Size { size: 0, digits: 0 }),
            Framing::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    /// True if the next byte belongs to another message.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// True if the connection may end here.
    pub fn may_end(&self) -> bool {
        matches!(self.state, State::Done | State::UntilClose)
    }

    /// Takes the longest run of one kind from the start of `bytes`. A run is empty only if `bytes`
    /// is.
    ///
    /// # Errors
    /// [`Malformed::Chunk`] when the bytes break the chunked coding.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Run, Malformed> {
        match &mut self.state {
            State::Done => Ok(Run::End),
            State::UntilClose => Ok(Run::Content(bytes.len())),
            State::Length(left) => {
                let taken = take(left, bytes.len());
                if *left == 0 {
                    self.state = State::Done;
                }
                Ok(Run::Content(taken))
            }
            State::Chunk(Chunk::Content(left)) => {
                let taken = take(left, bytes.len());
                if *left == 0 {
                    self.state = State::Chunk(Chunk::ContentReturn);
                }
                Ok(Run::Content(taken))
            }
            State::Chunk(chunk) => {
                let mut chunk = *chunk;
                for (index, &byte) in bytes.iter().enumerate() {
                    match step(chunk, byte)? {
                        Some(next) => chunk = next,
                        None => {
                            self.state = State::Done;
                            return Ok(Run::Delimiter(index + 1));
                        }
                    }
                    if matches!(chunk, Chunk::Content(_)) {
                        self.state = State::Chunk(chunk);
                        return Ok(Run::Delimiter(index + 1));
                    }
                }
                self.state = State::Chunk(chunk);
                Ok(Run::Delimiter(bytes.len()))
            }
        }
    }
}

/// Handles one byte of chunk delimiters; `None` after the last one.
fn step(chunk: Chunk, byte: u8) -> Result<Option<Chunk>, Malformed> {
    let next = match (chunk, byte) {
        (Chunk::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
            let digit = char::from(byte).to_digit(16).ok_or(Malformed::Chunk)?;
            let digits = digits.saturating_add(1);
            if digits > MAX_SIZE_DIGITS {
                return Err(Malformed::Chunk);
            }
            let size = (size << 4) | u64::from(digit);
            Chunk::Size { size, digits }
        }
        (Chunk::Size { digits: 0, .. }, _) => return Err(Malformed::Chunk),
        (Chunk::Size { size, .. } | Chunk::Extension { size, .. }, b'\r') => {
            Chunk::SizeLineFeed { size }
        }
        // White space before the end of the line is wrong but common.
        (Chunk::Size { size, .. }, b';' | b' ' | b'\t') => Chunk::Extension { size, length: 0 },
        (Chunk::Extension { size, length }, byte) if byte != b'\n' && length < MAX_EXTENSION => {
            let length = length + 1;
            Chunk::Extension { size, length }
        }
        (Chunk::SizeLineFeed { size: 0 }, b'\n') => Chunk::TrailerStart { length: 0 },
        (Chunk::SizeLineFeed { size }, b'\n') => Chunk::Content(size),
        (Chunk::ContentReturn, b'\r') => Chunk::ContentLineFeed,
        (Chunk::ContentLineFeed, b'\n') => Chunk::Size { size: 0, digits: 0 },
        (Chunk::TrailerStart { .. }, b'\r') => Chunk::EndLineFeed,
        (Chunk::Trailer { length }, b'\r') => Chunk::TrailerLineFeed { length },
        (Chunk::TrailerStart { length } | Chunk::Trailer { length }, byte)
            if byte != b'\n' && length < MAX_TRAILERS =>
        {
            let length = length + 1;
            Chunk::Trailer { length }
        }
        (Chunk::TrailerLineFeed { length }, b'\n') => Chunk::TrailerStart { length },
        (Chunk::EndLineFeed, b'\n') => return Ok(None),
        _ => return Err(Malformed::Chunk),
    };
    Ok(Some(next))
}

/// Subtracts up to `available` from `left`; returns the amount.
fn take(left: &mut u64, available: usize) -> usize {
    let taken = usize::try_from(*left).map_or(available, |left| left.min(available));
    *left -= taken as u64;
    taken
}

/// Hexadecimal digits of a `u64`, leading zeros included.
const MAX_SIZE_DIGITS: u8 = 16;
const MAX_EXTENSION: u16 = 4096;
const MAX_TRAILERS: u32 = 64 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a body in pieces of `piece` bytes; returns its content and its length.
    fn decode(framing: Framing, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize), Malformed> {
        let mut body = Body::new(framing);
        let mut content = Vec::new();
        let mut position = 0;
        while position < bytes.len() {
            let end = bytes.len().min(position + piece);
            let window = &bytes[position..end];
            match body.advance(window)? {
                Run::End => break,
                Run::Content(length) => {
                    content.extend_from_slice(&window[..length]);
                    position += length;
                }
                Run::Delimiter(length) => position += length,
            }
        }
        assert!(body.may_end());
        Ok((content, position))
    }

    #[test]
    fn a_length_ends_the_body_exactly() {
        let decoded = decode(Framing::Length(5), b"hellonext", 100).unwrap();
        assert_eq!(decoded, (b"hello".to_vec(), 5));
        assert!(Body::new(Framing::Length(0)).is_done());
    }

    #[test]
    fn chunks_extensions_and_trailers_are_followed() {
        let bytes = b"5;name=\"x\"\r\nhello\r\n3 \r\n, w\r\n0\r\nExpires: never\r\n\r\nnext";
        for piece in 1..bytes.len() {
            let (content, end) = decode(Framing::Chunked, bytes, piece).unwrap();
            assert_eq!(content, b"hello, w");
            assert_eq!(&bytes[end..], b"next");
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"5\nhello",
            b"1\r\nab\r\n",
            b"0\r\n\n",
            b"0\r\nA: b\n",
            b"11111111111111111\r\n",
            b"1\rx",
        ] {
            assert_eq!(decode(Framing::Chunked, bytes, 100), Err(Malformed::Chunk));
        }
        let endless = [b"1;".to_vec(), vec![b'x'; 5000]].concat();
        assert_eq!(
            decode(Framing::Chunked, &endless, 100),
            Err(Malformed::Chunk)
        );
        let endless = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(20_000)].concat();
        assert_eq!(
            decode(Framing::Chunked, &endless, 100),
            Err(Malformed::Chunk)
        );
    }

    proptest! {
        #[test]
        fn chunked_content_comes_back_whole(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            piece in 1..40_usize,
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let whole = bytes.len();
            bytes.extend_from_slice(b"next");
            prop_assert_eq!(decode(Framing::Chunked, &bytes, piece), Ok((chunks.concat(), whole)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzzing::fuzz_http_body(&bytes);
        }
    }
}
