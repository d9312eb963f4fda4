mod deadlock;
mod govern;
mod pair;
mod random;
mod raw;
mod report;
mod tail;
mod transfer;
