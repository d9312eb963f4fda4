//! One trait per unit of scheduling and one file per policy.
//!
//! A policy is pure over a read-only view of the paths: it never sends, it says where the next
//! unit should go. Today the unit is the [`chunk`] of a byte stream.
#![forbid(unsafe_code)]

pub mod chunk;
mod view;

pub use view::PathView;
