mod deadlock;
mod pair;
mod random;
mod raw;
mod transfer;
