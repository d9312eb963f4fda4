//! One trait per unit of scheduling and one file per policy; what each link adds, and what the user
//! allows.
//!
//! A policy is pure over a read-only view of the paths: it never sends, it says where the next
//! unit should go: the [`chunk`] of a byte stream, or the whole [`connection`]. The [`governor`] demotes links
//! that harm the whole, and [`rules`] are the user's.
#![forbid(unsafe_code)]

pub mod chunk;
mod code;
pub mod connection;
pub mod governor;
pub mod rules;
mod view;

pub use view::PathView;
