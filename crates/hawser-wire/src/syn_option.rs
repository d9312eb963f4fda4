//! The TCP option by which two hosts find out in the handshake that both can bond.

use std::fmt;
use std::net::SocketAddr;

/// A host's offer in a handshake: that it can bond, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Form in which it was said.
    pub form: OfferForm,
    /// Version of the binary form; 0 in the paper's form, which has none.
    pub version: u8,
    /// Number of the host's interfaces, at least 1. The paper's form has room for 99.
    pub interfaces: u8,
    /// Hint at the host's key. Answers in binary form have one, and nothing else has.
    pub key_hint: Option<KeyHint>,
}

/// Facts about a destination that a client has heard in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The destination.
    pub to: SocketAddr,
    /// Its offer; `None` if it made none that arrived.
    pub offer: Option<Offer>,
}

/// Form of the option's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfferForm {
    /// Six decimal digits as text: two for the number of interfaces, four for the connection.
    ///
    /// Source: BATCP §3.
    Paper,
    /// The same content and more, behind an experiment id.
    ///
    /// Source: RFC 6994 §3.
    Binary,
}

/// The first eight bytes of SHA-256 of a server's public key. It tells keys apart and proves
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHint(pub [u8; 8]);

/// TCP option 254 of a SYN or SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynOption {
    /// The sender's offer.
    pub offer: Offer,
    /// In a SYN: the sender wants this connection itself to be bonded. In a SYN-ACK: it can be. The
    /// paper's form always means that.
    pub bond: bool,
    /// Random number of the connection; below [`Self::PAPER_CONNECTIONS`] in the paper's form.
    pub connection: u32,
}

/// Bytes of an option, kind and length included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SynOptionBytes {
    bytes: [u8; SynOption::MAX_LENGTH],
    length: usize,
}

/// Reason why bytes are no option of Hawser's, or why a value has no such bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynOptionError {
    /// The option has another kind.
    #[error("TCP option of kind {0}, where 254 is expected")]
    Kind(u8),
    /// The option belongs to another experiment.
    #[error("TCP option 254 of experiment {0:#06x}, which is not this one")]
    OtherExperiment(u16),
    /// The option ends early, or its length is not one of its form.
    #[error("TCP option 254 with a length of {0}")]
    Length(u8),
    /// One of the six bytes is no decimal digit.
    #[error("TCP option 254 with byte {0:#04x} where a decimal digit is expected")]
    Digit(u8),
    /// The number of interfaces is 0, or more than the form can say.
    #[error("TCP option 254 with {0} interfaces")]
    Interfaces(u8),
    /// The version is unknown.
    #[error("TCP option 254 of version {0}")]
    Version(u8),
    /// Flags that have no meaning are set.
    #[error("TCP option 254 with flags {0:#x}")]
    Flags(u8),
    /// The number of the connection has more than four digits.
    #[error("TCP option 254 with connection {0}, which has more than four digits")]
    Connection(u32),
    /// The paper's form cannot say this.
    #[error("TCP option 254 in the paper's form has no room for a version, a flag or a key hint")]
    NotInPaper,
}

impl SynOption {
    /// Kind of the option, which RFC 4727 §2.2 leaves to experiments.
    pub const KIND: u8 = 254;
    /// Experiment id of the binary form: `HW`.
    pub const EXPERIMENT: u16 = 0x4857;
    /// Version of the binary form.
    pub const VERSION: u8 = 1;
    /// Length of the longest option in bytes, an answer in binary form. Beside timestamps, SACK,
    /// maximum segment size and window scale 20 bytes are left.
    pub const MAX_LENGTH: usize = 18;
    /// Number of connections that four digits can tell apart.
    pub const PAPER_CONNECTIONS: u32 = 10_000;

    /// Returns the option's bytes.
    ///
    /// # Errors
    ///
    /// Fails for values that the form cannot say.
    pub fn encode(&self) -> Result<SynOptionBytes, SynOptionError> {
        if self.offer.interfaces == 0 {
            return Err(SynOptionError::Interfaces(0));
        }
        match self.offer.form {
            OfferForm::Paper => self.encode_paper(),
            OfferForm::Binary => self.encode_binary(),
        }
    }

    fn encode_paper(&self) -> Result<SynOptionBytes, SynOptionError> {
        let Offer {
            version,
            interfaces,
            key_hint,
            ..
        } = self.offer;
        if version != 0 || key_hint.is_some() || !self.bond {
            return Err(SynOptionError::NotInPaper);
        }
        if interfaces > MAX_PAPER_INTERFACES {
            return Err(SynOptionError::Interfaces(interfaces));
        }
        if self.connection >= Self::PAPER_CONNECTIONS {
            return Err(SynOptionError::Connection(self.connection));
        }
        let number = u32::from(interfaces) * Self::PAPER_CONNECTIONS + self.connection;
        let digit = |unit: u32| b'0' + (number / unit % 10) as u8;
        let digits = [100_000, 10_000, 1000, 100, 10, 1].map(digit);
        let mut out = SynOptionBytes::new(PAPER_LENGTH);
        out.bytes[2..PAPER_LENGTH].copy_from_slice(&digits);
        Ok(out)
    }

    fn encode_binary(&self) -> Result<SynOptionBytes, SynOptionError> {
        if self.offer.version != Self::VERSION {
            return Err(SynOptionError::Version(self.offer.version));
        }
        let length = match self.offer.key_hint {
            Some(_) => ANSWER_LENGTH,
            None => QUESTION_LENGTH,
        };
        let mut out = SynOptionBytes::new(length);
        out.bytes[2..4].copy_from_slice(&Self::EXPERIMENT.to_be_bytes());
        out.bytes[4] = Self::VERSION << VERSION_SHIFT | u8::from(self.bond);
        out.bytes[5] = self.offer.interfaces;
        out.bytes[6..QUESTION_LENGTH].copy_from_slice(&self.connection.to_be_bytes());
        if let Some(hint) = self.offer.key_hint {
            out.bytes[QUESTION_LENGTH..].copy_from_slice(&hint.0);
        }
        Ok(out)
    }

    /// Reads one option: its kind, its length, and no byte more.
    ///
    /// # Errors
    ///
    /// Fails with the first thing that is wrong.
    pub fn decode(option: &[u8]) -> Result<Self, SynOptionError> {
        let [kind, length, data @ ..] = option else {
            let length = u8::try_from(option.len()).unwrap_or(u8::MAX);
            return Err(SynOptionError::Length(length));
        };
        if *kind != Self::KIND {
            return Err(SynOptionError::Kind(*kind));
        }
        let wrong_length = SynOptionError::Length(*length);
        if usize::from(*length) != option.len() {
            return Err(wrong_length);
        }
        let (magic, rest) = data.split_first_chunk::<2>().ok_or(wrong_length)?;
        if magic.iter().all(u8::is_ascii_digit) {
            let digits = data.try_into().map_err(|_| wrong_length)?;
            return Self::decode_paper(digits);
        }
        match u16::from_be_bytes(*magic) {
            Self::EXPERIMENT => Self::decode_binary(rest, wrong_length),
            other => Err(SynOptionError::OtherExperiment(other)),
        }
    }

    fn decode_paper(digits: &[u8; 6]) -> Result<Self, SynOptionError> {
        let mut number = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return Err(SynOptionError::Digit(*digit));
            }
            number = number * 10 + u32::from(digit - b'0');
        }
        let interfaces = (number / Self::PAPER_CONNECTIONS) as u8;
        if interfaces == 0 {
            return Err(SynOptionError::Interfaces(0));
        }
        Ok(Self {
            offer: Offer {
                form: OfferForm::Paper,
                version: 0,
                interfaces,
                key_hint: None,
            },
            bond: true,
            connection: number % Self::PAPER_CONNECTIONS,
        })
    }

    /// Reads what follows the experiment id.
    fn decode_binary(rest: &[u8], wrong_length: SynOptionError) -> Result<Self, SynOptionError> {
        let (head, hint) = rest.split_first_chunk::<6>().ok_or(wrong_length)?;
        let key_hint = match hint {
            [] => None,
            hint => Some(KeyHint(hint.try_into().map_err(|_| wrong_length)?)),
        };
        let [what, interfaces, connection @ ..] = *head;
        let (version, flags) = (what >> VERSION_SHIFT, what & FLAGS);
        if version != Self::VERSION {
            return Err(SynOptionError::Version(version));
        }
        if flags & !BOND != 0 {
            return Err(SynOptionError::Flags(flags));
        }
        if interfaces == 0 {
            return Err(SynOptionError::Interfaces(0));
        }
        Ok(Self {
            offer: Offer {
                form: OfferForm::Binary,
                version,
                interfaces,
                key_hint,
            },
            bond: flags & BOND != 0,
            connection: u32::from_be_bytes(connection),
        })
    }

    /// Finds the option among those of a TCP header (RFC 9293 §3.1), which may end with padding.
    /// Returns the first that can be read. `None` where there is none, also where the list breaks
    /// off.
    ///
    /// # Errors
    ///
    /// Fails with what is wrong with the first one that is Hawser's and cannot be read, if none
    /// can.
    pub fn find(options: &[u8]) -> Result<Option<Self>, SynOptionError> {
        let mut rest = options;
        let mut fault = None;
        loop {
            match rest {
                [] | [END, ..] => break,
                [NO_OPERATION, behind @ ..] => rest = behind,
                [kind, length, ..] => {
                    let length = usize::from(*length);
                    if length < 2 || length > rest.len() {
                        break;
                    }
                    let (option, behind) = rest.split_at(length);
                    rest = behind;
                    if *kind != Self::KIND {
                        continue;
                    }
                    match Self::decode(option) {
                        Ok(found) => return Ok(Some(found)),
                        Err(SynOptionError::OtherExperiment(_)) => {}
                        Err(error) => fault = fault.or(Some(error)),
                    }
                }
                [_] => break,
            }
        }
        fault.map_or(Ok(None), Err)
    }

    /// Tells whether this option of a SYN-ACK answers that of the SYN. A middlebox that sends back
    /// what it does not know gives no answer.
    ///
    /// An answer in binary form has a key hint and the SYN's connection. In the paper's form each
    /// of the four digits is nine less the SYN's, so an answer never equals its question.
    pub fn is_answer_to(&self, syn: &Self) -> bool {
        if self.offer.form != syn.offer.form || syn.offer.key_hint.is_some() {
            return false;
        }
        match self.offer.form {
            OfferForm::Paper => {
                syn.connection < Self::PAPER_CONNECTIONS
                    && self.connection == Self::PAPER_CONNECTIONS - 1 - syn.connection
            }
            OfferForm::Binary => self.offer.key_hint.is_some() && self.connection == syn.connection,
        }
    }
}

impl SynOptionBytes {
    fn new(length: usize) -> Self {
        let mut bytes = [0; SynOption::MAX_LENGTH];
        bytes[0] = SynOption::KIND;
        bytes[1] = length as u8;
        Self { bytes, length }
    }
}

impl AsRef<[u8]> for SynOptionBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for SynOptionBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.as_ref())
    }
}

impl fmt::Display for KeyHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHint({self})")
    }
}

const PAPER_LENGTH: usize = 8;
const QUESTION_LENGTH: usize = 10;
const ANSWER_LENGTH: usize = SynOption::MAX_LENGTH;
const MAX_PAPER_INTERFACES: u8 = 99;
const VERSION_SHIFT: u32 = 4;
const FLAGS: u8 = 0x0f;
const BOND: u8 = 0x01;
/// Kinds of options without a length (RFC 9293 §3.1).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

#[cfg(test)]
mod tests;
