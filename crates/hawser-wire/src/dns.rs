//! Messages of the domain name system: questions for the addresses of a name, what of an answer
//! matters for finding them, and what matters for passing on the messages of others.
//!
//! Names are compared and skipped, never decompressed: an answer's addresses are those of the name
//! that was asked for, whatever aliases lead there, since the server that was asked has followed
//! them.
//!
//! Source: RFC 1035 §4; RFC 3596 §2 for IPv6 addresses.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use hawser_types::HostName;

/// Type of the records asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressRecord {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// Fault of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DnsError {
    /// It ends before what it announces.
    #[error("the message ends too early")]
    Truncated,
    /// A name has a label of an unknown kind, or is too long.
    #[error("a name in the message makes no sense")]
    Name,
    /// It does not ask exactly one question.
    #[error("the message has {0} questions instead of one")]
    Questions(u16),
    /// A question where an answer was due, or the other way round; or neither.
    #[error("the message is not of the expected kind")]
    Kind,
}

/// A question as it stands in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsQuestion {
    /// The number that its answer has to repeat.
    pub id: u16,
    /// The asker wants a whole answer, for which the server asks others (RD).
    pub is_recursive: bool,
    /// Name, type and class as in the message, the name in lower case.
    question: Vec<u8>,
}

/// Contents of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsAnswer {
    /// The server's verdict.
    pub code: AnswerCode,
    /// Part of it is missing: the question is to be asked again over TCP.
    pub is_truncated: bool,
    /// True if it has records of any type for the question.
    pub has_records: bool,
    /// The addresses in it, in its order: the first [`MAX_ADDRESSES`].
    pub addresses: Vec<IpAddr>,
    /// Every address that is read: those of all records for addresses, and hints.
    pub told: Vec<IpAddr>,
    /// It has records that make no sense, or are of another class, and may have addresses.
    pub has_unread: bool,
    /// It has records that are not read, and that some askers may read addresses from: of another
    /// class, with hints, of a wrong length, or more than are kept.
    pub may_lead_elsewhere: bool,
    /// Seconds for which all of its records hold; `None` without records.
    pub seconds_to_live: Option<u32>,
}

/// A server's verdict on a question (RCODE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerCode {
    /// The name exists.
    Found,
    /// The name does not exist.
    NoSuchName,
    /// The server could not or would not find out; the number says why.
    Failed(u8),
}

impl DnsQuestion {
    /// The message that asks for the addresses of `name`, with the wish that the server follows
    /// aliases and asks others. A final dot makes no difference.
    pub fn encode(id: u16, name: &HostName, record: AddressRecord) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + name.as_str().len() + 6);
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&RECURSION_DESIRED.to_be_bytes());
        // One question, and nothing else.
        out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        let name = name.as_str().strip_suffix('.').unwrap_or(name.as_str());
        for label in name.split('.') {
            // A host name's labels have 1 to 63 bytes.
            out.push(label.len() as u8);
            out.extend_from_slice(label.as_bytes());
        }
        out.push(0);
        out.extend_from_slice(&record.number().to_be_bytes());
        out.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
        out
    }

    /// Reads the question of a message that asks.
    ///
    /// # Errors
    /// [`DnsError`]; anything behind the question is not looked at.
    pub fn decode(message: &[u8]) -> Result<Self, DnsError> {
        let header = Header::read(message)?;
        if header.flags & (IS_ANSWER | OPCODE) != 0 {
            return Err(DnsError::Kind);
        }
        let (question, _) = header.question(message)?;
        Ok(Self {
            id: header.id,
            is_recursive: header.flags & RECURSION_DESIRED != 0,
            question,
        })
    }

    /// The name in lower case, its labels separated by dots. Bytes that are no text are replaced,
    /// and a pointer ends it.
    pub fn name(&self) -> String {
        let mut reader = Reader(&self.question);
        let mut labels = Vec::new();
        while let Ok([length @ 1..=MAX_LABEL]) = reader.array() {
            let label = reader.take(usize::from(length)).unwrap_or_default();
            labels.push(String::from_utf8_lossy(label));
        }
        labels.join(".")
    }

    /// True if it asks for ordinary records of the internet: any server that knows the name gives
    /// the same, and one message holds it. Not so for zone transfers and for what a server says of
    /// itself (class CHAOS).
    pub fn is_ordinary(&self) -> bool {
        let end = self.question.last_chunk::<4>();
        let Some([kind_high, kind_low, class @ ..]) = end else {
            return false;
        };
        let kind = u16::from_be_bytes([*kind_high, *kind_low]);
        let is_transfer = matches!(kind, TYPE_IXFR | TYPE_AXFR);
        u16::from_be_bytes(*class) == CLASS_INTERNET && !is_transfer && kind != TYPE_OPT
    }

    /// True if it asks for addresses, and for nothing else.
    pub fn is_for_addresses(&self) -> bool {
        matches!(self.kind(), Some(TYPE_A | TYPE_AAAA))
    }

    /// True if answers may have addresses in other records than those for addresses: SVCB and HTTPS
    /// records have them as hints, and a query for all records gets any.
    ///
    /// Source: RFC 9460 §7.3; RFC 8482.
    pub fn may_hint_at_addresses(&self) -> bool {
        self.kind()
            .is_some_and(|it| has_hints(it) || it == TYPE_ANY)
    }

    fn kind(&self) -> Option<u16> {
        let [kind_high, kind_low, _, _] = self.question.last_chunk()?;
        Some(u16::from_be_bytes([*kind_high, *kind_low]))
    }

    /// Reads an answer to this question; `None` if it is an answer to another one.
    ///
    /// # Errors
    /// [`DnsError`].
    pub fn decode_answer(&self, message: &[u8]) -> Result<Option<DnsAnswer>, DnsError> {
        let header = Header::read(message)?;
        if header.flags & IS_ANSWER == 0 || header.flags & OPCODE != 0 {
            return Err(DnsError::Kind);
        }
        if header.id != self.id {
            return Ok(None);
        }
        let code = header.code();
        if header.questions == 0 && matches!(code, AnswerCode::Failed(_)) {
            // A server that could not read the question does not repeat it.
            return Ok(Some(DnsAnswer::without_records(code)));
        }
        let (question, rest) = header.question(message)?;
        if question != self.question {
            return Ok(None);
        }
        let mut answer = DnsAnswer::without_records(code);
        answer.is_truncated = header.flags & TRUNCATED != 0;
        match answer.take_records(rest, header.answers) {
            Ok(()) => Ok(Some(answer)),
            Err(_) if answer.is_truncated => Ok(Some(answer)),
            Err(error) => Err(error),
        }
    }
}

impl DnsAnswer {
    fn without_records(code: AnswerCode) -> Self {
        Self {
            code,
            is_truncated: false,
            has_records: false,
            addresses: Vec::new(),
            told: Vec::new(),
            has_unread: false,
            may_lead_elsewhere: false,
            seconds_to_live: None,
        }
    }

    fn take_records(&mut self, records: &[u8], count: u16) -> Result<(), DnsError> {
        let mut reader = Reader(records);
        for _ in 0..count {
            reader.skip_name()?;
            let [kind, class] = [reader.number()?, reader.number()?];
            let time = u32::from_be_bytes(reader.array()?);
            let length = reader.number()?;
            let data = reader.take(usize::from(length))?;
            if class != CLASS_INTERNET {
                self.may_lead_elsewhere = true;
                self.has_unread |= matches!(kind, TYPE_A | TYPE_AAAA) || has_hints(kind);
                continue;
            }
            self.has_records = true;
            // The highest bit has no meaning: RFC 2181 §8.
            let time = if time > i32::MAX as u32 { 0 } else { time };
            self.seconds_to_live = Some(self.seconds_to_live.map_or(time, |least| least.min(time)));
            let read = match kind {
                TYPE_A => addresses::<4>(data),
                TYPE_AAAA => addresses::<16>(data),
                other if has_hints(other) => {
                    self.may_lead_elsewhere = true;
                    let hints = hints(data);
                    self.has_unread |= hints.is_err();
                    self.told.extend(hints.unwrap_or_default());
                    continue;
                }
                _ => continue,
            };
            match read.as_deref() {
                Ok([address]) => self.take_address(*address),
                _ => (self.may_lead_elsewhere, self.has_unread) = (true, true),
            }
        }
        Ok(())
    }

    fn take_address(&mut self, address: IpAddr) {
        self.told.push(address);
        if self.addresses.contains(&address) {
            return;
        }
        if self.addresses.len() < MAX_ADDRESSES {
            self.addresses.push(address);
        } else {
            self.may_lead_elsewhere = true;
        }
    }
}

impl AddressRecord {
    const fn number(self) -> u16 {
        match self {
            Self::A => TYPE_A,
            Self::Aaaa => TYPE_AAAA,
        }
    }
}

/// Whether records of this type may have addresses as hints.
const fn has_hints(kind: u16) -> bool {
    matches!(kind, TYPE_SVCB | TYPE_HTTPS)
}

/// The addresses that a record of the types SVCB and HTTPS has as hints.
///
/// Source: RFC 9460 §2.2, §7.3.
fn hints(data: &[u8]) -> Result<Vec<IpAddr>, DnsError> {
    let mut reader = Reader(data);
    reader.take(2)?;
    reader.skip_name()?;
    let mut found = Vec::new();
    while !reader.0.is_empty() {
        let [key, length] = [reader.number()?, reader.number()?];
        let value = reader.take(usize::from(length))?;
        match key {
            KEY_IPV4_HINT => found.extend(addresses::<4>(value)?),
            KEY_IPV6_HINT => found.extend(addresses::<16>(value)?),
            _ => {}
        }
    }
    Ok(found)
}

/// Addresses of `N` bytes, one behind the other.
fn addresses<const N: usize>(data: &[u8]) -> Result<Vec<IpAddr>, DnsError>
where
    IpAddr: From<[u8; N]>,
{
    let (addresses, rest) = data.as_chunks();
    let all = addresses.iter().map(|it: &[u8; N]| IpAddr::from(*it));
    rest.is_empty()
        .then(|| all.collect())
        .ok_or(DnsError::Truncated)
}

/// Gives `message` another number. One that is too short for a number stays as it is.
pub fn set_dns_id(message: &mut [u8], id: u16) {
    if let Some(first) = message.first_chunk_mut() {
        *first = id.to_be_bytes();
    }
}

/// Bytes that an answer to the message `query` may have in a datagram: 512, or more if the asker
/// says so (EDNS).
///
/// Source: RFC 1035 §4.2.1; RFC 6891 §6.2.3.
pub fn datagram_limit(query: &[u8]) -> usize {
    let announced = announced_limit(query).unwrap_or(0);
    usize::from(announced).max(MIN_DATAGRAM)
}

fn announced_limit(query: &[u8]) -> Result<u16, DnsError> {
    let mut reader = Reader(query);
    reader.take(4)?;
    let questions = reader.number()?;
    let records = [reader.number()?, reader.number()?, reader.number()?];
    for _ in 0..questions {
        reader.skip_name()?;
        reader.take(4)?;
    }
    for _ in 0..records.into_iter().map(u32::from).sum::<u32>() {
        reader.skip_name()?;
        let [kind, class] = [reader.number()?, reader.number()?];
        reader.take(4)?;
        let length = reader.number()?;
        reader.take(usize::from(length))?;
        if kind == TYPE_OPT {
            return Ok(class);
        }
    }
    Err(DnsError::Truncated)
}

/// The answer to the message `query` that the server could not find out (SERVFAIL); none if `query`
/// is no question.
pub fn failure(query: &[u8]) -> Option<Vec<u8>> {
    without_records(query, SERVER_FAILURE)
}

/// The answer to the message `query` that the name exists without such records (NODATA); none if
/// `query` is no question.
pub fn no_records(query: &[u8]) -> Option<Vec<u8>> {
    without_records(query, 0)
}

fn without_records(query: &[u8], code: u16) -> Option<Vec<u8>> {
    let header = Header::read(query).ok()?;
    if header.flags & (IS_ANSWER | OPCODE) != 0 {
        return None;
    }
    let (question, _) = header.question(query).ok()?;
    let mut out = query[..HEADER + question.len()].to_vec();
    let flags = IS_ANSWER | header.flags & RECURSION_DESIRED | RECURSION_AVAILABLE | code;
    out[2..4].copy_from_slice(&flags.to_be_bytes());
    out[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    Some(out)
}

/// The answer `message` without its records, marked as truncated, so that the asker asks again over
/// TCP.
pub fn cut(message: &[u8]) -> Vec<u8> {
    let Ok(header) = Header::read(message) else {
        return message.to_vec();
    };
    let question = header.question(message).map(|(question, _)| question.len());
    let question = question.unwrap_or(0);
    let mut out = message[..HEADER + question].to_vec();
    out[2..4].copy_from_slice(&(header.flags | TRUNCATED).to_be_bytes());
    out[4..HEADER].copy_from_slice(&[0, u8::from(question > 0), 0, 0, 0, 0, 0, 0]);
    out
}

struct Header {
    id: u16,
    flags: u16,
    questions: u16,
    answers: u16,
}

impl Header {
    fn read(message: &[u8]) -> Result<Self, DnsError> {
        let mut reader = Reader(message);
        let header = Self {
            id: reader.number()?,
            flags: reader.number()?,
            questions: reader.number()?,
            answers: reader.number()?,
        };
        reader.take(4)?;
        Ok(header)
    }

    fn code(&self) -> AnswerCode {
        match self.flags & CODE {
            0 => AnswerCode::Found,
            3 => AnswerCode::NoSuchName,
            other => AnswerCode::Failed(other as u8),
        }
    }

    /// The question, its name in lower case, and what comes behind it.
    fn question<'a>(&self, message: &'a [u8]) -> Result<(Vec<u8>, &'a [u8]), DnsError> {
        if self.questions != 1 {
            return Err(DnsError::Questions(self.questions));
        }
        let body = message.get(HEADER..).ok_or(DnsError::Truncated)?;
        let mut reader = Reader(body);
        reader.skip_name()?;
        let name = body.len() - reader.0.len();
        reader.take(4)?;
        let end = body.len() - reader.0.len();
        let mut question = body[..end].to_vec();
        // Lengths of labels are below 64, where ASCII has no letters.
        question[..name].make_ascii_lowercase();
        Ok((question, reader.0))
    }
}

/// The bytes that have not been read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DnsError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DnsError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DnsError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DnsError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    fn number(&mut self) -> Result<u16, DnsError> {
        self.array().map(u16::from_be_bytes)
    }

    /// A name ends with an empty label, or with a pointer to the rest of it, which is not followed.
    fn skip_name(&mut self) -> Result<(), DnsError> {
        let begun = self.0.len();
        loop {
            let [length] = self.array()?;
            match length {
                0 => return Ok(()),
                1..=MAX_LABEL => drop(self.take(usize::from(length))?),
                192.. => return self.array::<1>().map(drop),
                _ => return Err(DnsError::Name),
            }
            if begun - self.0.len() > MAX_NAME {
                return Err(DnsError::Name);
            }
        }
    }
}

const HEADER: usize = 12;
const IS_ANSWER: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const CODE: u16 = 0x000f;
const SERVER_FAILURE: u16 = 2;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
const TYPE_SVCB: u16 = 64;
const TYPE_HTTPS: u16 = 65;
const TYPE_ANY: u16 = 255;
const TYPE_IXFR: u16 = 251;
const TYPE_AXFR: u16 = 252;
const CLASS_INTERNET: u16 = 1;
const KEY_IPV4_HINT: u16 = 4;
const KEY_IPV6_HINT: u16 = 6;
/// Bytes of an answer that every asker takes in a datagram.
const MIN_DATAGRAM: usize = 512;
/// Octets of a label.
const MAX_LABEL: u8 = 63;
/// Octets of a name. Source: RFC 1035 §2.3.4.
const MAX_NAME: usize = 255;
/// Addresses that are kept of one answer.
pub const MAX_ADDRESSES: usize = 16;
