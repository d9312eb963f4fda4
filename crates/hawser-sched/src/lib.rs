//! One trait per unit of scheduling and one file per policy.
