//! The first bytes of a connection to the meter: one for the request (`P`, `G` or `E`), then the
//! number of bytes in 8, big-endian.

use std::io;

use crate::scenario::Direction;

/// Bytes of a header.
pub(super) const HEADER: usize = 9;

/// The request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) operation: Operation,
    /// Bytes of the transfer, or of each block of an echo.
    pub(super) size: u64,
}

/// The operation on the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put,
    Get,
    Echo,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Put, Self::Get, Self::Echo];

    fn letter(self) -> u8 {
        match self {
            Self::Put => b'P',
            Self::Get => b'G',
            Self::Echo => b'E',
        }
    }
}

impl Header {
    pub(super) fn transfer(direction: Direction, size: u64) -> Self {
        let operation = match direction {
            Direction::Put => Operation::Put,
            Direction::Get => Operation::Get,
        };
        Self { operation, size }
    }

    pub(super) fn echo(size: u64) -> Self {
        let operation = Operation::Echo;
        Self { operation, size }
    }

    pub(super) fn bytes(self) -> [u8; HEADER] {
        let [a, b, c, d, e, f, g, h] = self.size.to_be_bytes();
        [self.operation.letter(), a, b, c, d, e, f, g, h]
    }

    /// An unknown operation is an error.
    pub(super) fn parse([letter, size @ ..]: [u8; HEADER]) -> io::Result<Self> {
        let known = |operation: &Operation| operation.letter() == letter;
        let operation = Operation::ALL.into_iter().find(known);
        Ok(Self {
            operation: operation.ok_or(io::ErrorKind::InvalidData)?,
            size: u64::from_be_bytes(size),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was() {
        for operation in Operation::ALL {
            let size = 0x0102_0304_0506_0708;
            let header = Header { operation, size };
            assert_eq!(Header::parse(header.bytes()).unwrap(), header);
        }
    }

    #[test]
    fn an_unknown_operation_is_refused() {
        assert!(Header::parse([0; HEADER]).is_err());
    }
}
