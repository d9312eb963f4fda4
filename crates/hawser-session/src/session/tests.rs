mod deadlock;
mod pair;
mod random;
mod transfer;
