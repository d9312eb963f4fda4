//! The commands that do their work in this process, one file each.

pub(crate) mod bench;
pub(crate) mod board;
pub(crate) mod doctor;
pub(crate) mod enclosed;
pub(crate) mod first_run;
pub(crate) mod given_invites;
pub(crate) mod invite;
pub(crate) mod manual;
pub(crate) mod peers;
pub(crate) mod receive;
pub(crate) mod rule;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod up;
pub(crate) mod voucher;
