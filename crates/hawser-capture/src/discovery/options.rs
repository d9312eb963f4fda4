//! Contents of SYN and SYN-ACK options.

use hawser_wire::{KeyHint, Offer, OfferForm, SynOption, SynOptionBytes};

use crate::CaptureError;
use crate::tables::{self, FrontedRow, OFFERS};

/// The meaning of a SYN's option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// This host can bond. The connection itself is an ordinary one.
    There,
    /// This connection wants to be bonded.
    Bond,
    /// This connection wants to be bonded, in the paper's form, which always asks for a bond.
    ///
    /// Source: BATCP §3.1.
    BondAsInPaper,
}

/// A port whose service can be reached over all links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontedPort {
    /// The port.
    pub port: u16,
    /// Number of interfaces of this host, 1 to 99.
    pub interfaces: u8,
    /// Hint at the key that clients will meet.
    pub key_hint: KeyHint,
    /// Treatment of SYNs that want their connection bonded.
    pub bonds: Bonds,
}

/// Treatment of SYNs that want their connection bonded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bonds {
    /// These SYNs go to the service like all others. The answer says that bonding is possible; in
    /// the paper's form there is no answer.
    Refused,
    /// The listener on the port is Hawser's own.
    Here,
    /// The listeners of [`crate::Discovery::listen`] get the SYNs that come in over interfaces of
    /// [`crate::Discovery::divert_on`] for addresses of [`crate::Discovery::set_own_addresses`].
    Diverted,
}

impl Announcement {
    pub(super) const fn number(self) -> u32 {
        match self {
            Self::There => tables::OFFER_THERE,
            Self::Bond => tables::OFFER_BOND,
            Self::BondAsInPaper => tables::OFFER_PAPER,
        }
    }
}

impl FrontedPort {
    pub(super) fn row(&self) -> Result<FrontedRow, CaptureError> {
        // The kernel's program fills in the SYN's number and flag.
        let answer = option(
            OfferForm::Binary,
            false,
            self.interfaces,
            Some(self.key_hint),
        )?;
        let paper = option(OfferForm::Paper, true, self.interfaces, None)?;
        Ok(FrontedRow {
            answer: padded(&answer),
            paper: padded(&paper),
            bonds: self.bonds.number(),
            on: 1,
        })
    }
}

impl Bonds {
    pub(super) const fn number(self) -> u32 {
        match self {
            Self::Refused => tables::BONDS_NONE,
            Self::Here => tables::BONDS_HERE,
            Self::Diverted => tables::BONDS_DIVERTED,
        }
    }
}

pub(super) fn questions(
    interfaces: u8,
) -> Result<[[u8; tables::QUESTION_ROOM]; OFFERS], CaptureError> {
    let mut questions = [[0; tables::QUESTION_ROOM]; OFFERS];
    for says in [
        Announcement::There,
        Announcement::Bond,
        Announcement::BondAsInPaper,
    ] {
        let form = match says {
            Announcement::BondAsInPaper => OfferForm::Paper,
            Announcement::There | Announcement::Bond => OfferForm::Binary,
        };
        // The connection has no number yet.
        let question = option(form, says != Announcement::There, interfaces, None)?;
        questions[says.number() as usize] = padded(&question);
    }
    Ok(questions)
}

fn option(
    form: OfferForm,
    bond: bool,
    interfaces: u8,
    key_hint: Option<KeyHint>,
) -> Result<SynOptionBytes, CaptureError> {
    let version = match form {
        OfferForm::Paper => 0,
        OfferForm::Binary => SynOption::VERSION,
    };
    let option = SynOption {
        offer: Offer {
            form,
            version,
            interfaces,
            key_hint,
        },
        bond,
        connection: 0,
    };
    Ok(option.encode()?)
}

/// Returns an option with the padding of its room, which is long enough for it.
fn padded<const N: usize>(option: &SynOptionBytes) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().zip(option.as_ref()) {
        *to = *from;
    }
    bytes
}
